//! The interpreter of each language, and the source of its runner.
//!
//! A runner's source travels over its control stream at every start: there is no file inside that could be changed for
//! the next context, or deleted.

use crate::FleetError;
use crate::request::invalid;
use paddock_engine::Sources;

pub(super) const PYTHON: &str = concat!(
    include_str!("runners/python_values.py"),
    include_str!("runners/python_charts.py"),
    include_str!("runners/python_ipython.py"),
    include_str!("runners/python_packages.py"),
    include_str!("runners/python_program.py"),
    include_str!("runners/python_end.py"),
    include_str!("runners/python.py")
);
/// The source of the zygote's program.
const PYTHON_ZYGOTE: &str = include_str!("runners/python_zygote.py");
const NODE: &str = concat!(
    include_str!("runners/node.js"),
    include_str!("runners/node_streams.js"),
    include_str!("runners/node_packages.js")
);
const BASH: &str = include_str!("runners/bash.sh");
const R: &str = include_str!("runners/r.R");
const JAVA: &str = include_str!("runners/jshell.java");

/// Each loader reads the length of the source as a line, then the source, and runs it.
pub(super) const PYTHON_LOADER: &str = r#"import os
c=int(os.environ.pop("PADDOCK_CONTROL","-1"))
n=b""
while not n.endswith(b"\n"):n+=os.read(c,1)
n=int(n);s=b""
while len(s)<n:
 p=os.read(c,n-len(s))
 if not p:os._exit(1)
 s+=p
exec(compile(s,"<paddock runner>","exec"),{"__name__":"paddock_runner","CONTROL":c})"#;
/// Each packet from its socket is one of its sources.
const PYTHON_ZYGOTE_LOADER: &str = r#"import os,socket
s=socket.socket(fileno=int(os.environ["PADDOCK_ZYGOTE"]))
z=s.recv(1<<20);s.detach()
exec(compile(z,"<paddock zygote>","exec"),{"__name__":"paddock_zygote"})"#;
const NODE_LOADER: &str = r#"{const f=require("fs"),c=+process.env.PADDOCK_CONTROL;delete process.env.PADDOCK_CONTROL;
let h="";const b=Buffer.alloc(1);while(f.readSync(c,b,0,1)===1&&b[0]!==10)h+=b.toString();
const s=Buffer.alloc(+h);let n=0;while(n<s.length){const g=f.readSync(c,s,n,s.length-n);if(g<1)process.exit(1);n+=g}
new Function("require","CONTROL","LANGUAGE",s.toString())(require,c,process.argv[1])}"#;
const BASH_LOADER: &str = r#"IFS= read -r n <&"$PADDOCK_CONTROL" && LC_ALL=C IFS= read -r -N "$n" s <&"$PADDOCK_CONTROL" && eval "$s""#;

/// R and Java cannot use a socket that they did not make, so that bash turns it into two pipes. The copies do not heed interrupts: those
/// are for the code. Java reads no source from a pipe: it gets a file that is deleted at once. The template's own runner goes before the one that is here.
macro_rules! pipes_loader {
    ($name:literal, $command:literal) => {
        concat!(
            r#"IFS= read -r n <&"$PADDOCK_CONTROL" && LC_ALL=C IFS= read -r -N "$n" s <&"$PADDOCK_CONTROL" || exit 1
f=/etc/paddock/runners/"#,
            $name,
            r#"; if [ -x "$f" ]; then exec "$f"; fi
exec 9<&"$PADDOCK_CONTROL"; [ "$PADDOCK_CONTROL" = 9 ] || exec {PADDOCK_CONTROL}<&-
unset PADDOCK_CONTROL
f=${TMPDIR:-/tmp}/.paddock-runner-$BASHPID
(umask 077; set -C; printf %s "$s" >"$f") && exec 5<"$f" || exit 1
rm -f -- "$f"
exec "#,
            $command,
            r#" 3< <(trap '' INT; exec cat <&9) 4> >(trap '' INT; exec cat >&9) 9<&-"#
        )
    };
}
const R_LOADER: &str = pipes_loader!("r", "Rscript --vanilla /dev/fd/5");
const JAVA_LOADER: &str =
    pipes_loader!("java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 --source 17 /dev/fd/5");

/// The directory in which a template puts the runners of other languages, one executable each.
const TEMPLATE_RUNNERS: &str = "/etc/paddock/runners";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language(Known);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Python,
    JavaScript,
    TypeScript,
    Bash,
    R,
    Java,
    /// A language for which the template may have a runner.
    Other(String),
}

impl Language {
    /// Python is the default.
    pub fn named(name: Option<&str>) -> Result<Language, FleetError> {
        Ok(Language(match name.unwrap_or("python") {
            "python" | "python3" => Known::Python,
            "javascript" | "js" | "node" => Known::JavaScript,
            "typescript" | "ts" => Known::TypeScript,
            "bash" => Known::Bash,
            "r" => Known::R,
            "java" => Known::Java,
            other => {
                let known =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_+".contains(&byte);
                if other.is_empty() || other.len() > 32 || !other.bytes().all(known) {
                    let shown: String = other.chars().take(40).collect();
                    return Err(invalid(format!("language `{}` is not known", shown.escape_debug()))
                        .hint("known are python, javascript, typescript, bash, r and java, and what the template has runners for"));
                }
                Known::Other(other.into())
            }
        }))
    }

    pub fn is_python(&self) -> bool {
        self.0 == Known::Python
    }

    /// True if its interpreter can be forked live into another sandbox: its runner waits in one system call, and can be
    /// told that it is a copy.
    pub fn is_forked_live(&self) -> bool {
        matches!(self.0, Known::Python | Known::Bash)
    }

    pub fn name(&self) -> &str {
        match &self.0 {
            Known::Python => "python",
            Known::JavaScript => "javascript",
            Known::TypeScript => "typescript",
            Known::Bash => "bash",
            Known::R => "r",
            Known::Java => "java",
            Known::Other(name) => name,
        }
    }

    pub fn argv(&self) -> Vec<String> {
        let words: &[&str] = match &self.0 {
            Known::Python => &["python3", "-c", PYTHON_LOADER],
            Known::JavaScript | Known::TypeScript => {
                &["node", "--experimental-vm-modules", "--no-warnings", "-e", NODE_LOADER, self.name()]
            }
            Known::Bash => &["bash", "--norc", "--noprofile", "-c", BASH_LOADER],
            Known::R => &["bash", "--norc", "--noprofile", "-c", R_LOADER],
            Known::Java => &["bash", "--norc", "--noprofile", "-c", JAVA_LOADER],
            Known::Other(name) => return vec![runner_file(name)],
        };
        words.iter().map(|word| word.to_string()).collect()
    }

    /// The files of the template of which one has to be there; none for a language that every template is taken to have. `path` as the
    /// variable PATH has it.
    pub fn wanted_files(&self, path: &str) -> Vec<String> {
        let program = match &self.0 {
            Known::Other(_) => None,
            Known::R => Some("Rscript"),
            // A Java without its compiler has no jshell.
            Known::Java => Some("jshell"),
            _ => return Vec::new(),
        };
        let places = path.split(':').filter(|place| place.starts_with('/'));
        let programs = places.filter_map(|place| program.map(|program| format!("{place}/{program}")));
        std::iter::once(runner_file(self.name())).chain(programs).collect()
    }

    pub fn unknown(&self) -> FleetError {
        let message = match &self.0 {
            Known::R => "language `r` is not there: the template has neither Rscript nor a runner for it".into(),
            Known::Java => {
                "language `java` is not there: the template has neither jshell, which a JDK brings, nor a runner for it".into()
            }
            _ => format!("language `{}` is not known: the template has no runner for it", self.name()),
        };
        invalid(message)
            .hint("known are python, javascript, typescript and bash, r and java where they are installed; a template adds one in /etc/paddock/runners")
    }

    /// The sources of a zygote; `None` for a language that has none.
    pub fn zygote(&self, preload: &[String]) -> Option<Sources> {
        let argv = ["python3", "-c", PYTHON_ZYGOTE_LOADER].map(String::from).to_vec();
        let python = Sources { argv, zygote: PYTHON_ZYGOTE, runner: PYTHON, preload: preload.to_vec() };
        (self.0 == Known::Python).then_some(python)
    }

    /// The first bytes on the control stream.
    pub fn source(&self) -> Vec<u8> {
        let source = match &self.0 {
            Known::Python => PYTHON,
            Known::JavaScript => NODE,
            Known::TypeScript => {
                let types = paddock_scripts::NODE_TYPES;
                return format!("{}\n{NODE}{types}", NODE.len() + types.len()).into_bytes();
            }
            Known::Bash => BASH,
            Known::R => R,
            Known::Java => JAVA,
            Known::Other(_) => return Vec::new(),
        };
        format!("{}\n{source}", source.len()).into_bytes()
    }
}

fn runner_file(language: &str) -> String {
    format!("{TEMPLATE_RUNNERS}/{language}")
}
