//! The languages, by SandboxFusion's names and the plain ones: how each is compiled and run, and in which file its code is.

use super::{Problem, Result, shorten};
use std::collections::BTreeMap;

pub struct Language {
    pub name: &'static str,
    /// As the scan knows it.
    pub scanned: &'static str,
    /// A whole name, or an ending that follows a name of the server's choice.
    file: &'static str,
    /// The tools that a template needs.
    pub tools: &'static str,
    /// Scripts for /bin/sh, in the directory of the code: $1 is the file, $2 the class path of Java. They end with 127 where the
    /// tools are missing.
    pub compile: Option<&'static str>,
    pub run: Run,
}

pub enum Run {
    /// The interpreter; the file follows.
    Interpreter(&'static str),
    /// The compiler's result.
    Made,
    Script(&'static str),
}

const MADE: &str = "./test";
/// Where images of these languages keep their tools.
const PLACES: &str = "PATH=$PATH:/usr/local/go/bin:/usr/local/cargo/bin; export GOCACHE=/tmp/.go-cache GOTOOLCHAIN=local GOFLAGS=-mod=mod; ";

const fn interpreted(name: &'static str, file: &'static str, interpreter: &'static str) -> Language {
    let run = Run::Interpreter(interpreter);
    Language { name, scanned: name, file, tools: interpreter, compile: None, run }
}

const fn compiled(
    name: &'static str,
    file: &'static str,
    tools: &'static str,
    compile: &'static str,
) -> Language {
    Language { name, scanned: name, file, tools, compile: Some(compile), run: Run::Made }
}

static LANGUAGES: [Language; 10] = [
    interpreted("python", ".py", "python3"),
    interpreted("bash", ".sh", "/bin/bash"),
    Language { scanned: "javascript", ..interpreted("nodejs", ".js", "node") },
    Language {
        tools: "tsx, or node",
        run: Run::Script(
            "if command -v tsx > /dev/null; then exec tsx \"$1\"; fi; command -v node > /dev/null || exit 127
             made=$(node /tmp/.strip-types.cjs \"$1\") && exec node \"$made\"",
        ),
        ..interpreted("typescript", ".ts", "")
    },
    compiled(
        "c",
        ".c",
        "gcc",
        "command -v gcc > /dev/null || exit 127; exec gcc -std=gnu17 \"$1\" -o test -lm -lpthread",
    ),
    compiled(
        "cpp",
        ".cpp",
        "g++",
        "command -v g++ > /dev/null || exit 127; file=$1; set --
         for library in crypto ssl; do
           test \"$(g++ -print-file-name=lib$library.so)\" = lib$library.so || set -- \"$@\" -l$library
         done
         exec g++ -std=c++17 \"$file\" -o test \"$@\" -lpthread",
    ),
    compiled("rust", ".rs", "rustc", "command -v rustc > /dev/null || exit 127; exec rustc \"$1\" -o test"),
    compiled("go", ".go", "go", "command -v go > /dev/null || exit 127; exec go build -o test \"$1\""),
    Language {
        run: Run::Script("command -v go > /dev/null || exit 127; exec go test \"$1\""),
        ..interpreted("go_test", "_test.go", "go")
    },
    Language {
        run: Run::Script("exec java -cp \"$2\" -ea Main"),
        ..compiled(
            "java",
            "Main.java",
            "javac and java",
            "command -v javac > /dev/null || exit 127; exec javac -cp \"$2\" Main.java",
        )
    },
];

const OTHER_NAMES: [(&str, &str); 9] = [
    ("python3", "python"),
    ("javascript", "nodejs"),
    ("js", "nodejs"),
    ("node", "nodejs"),
    ("ts", "typescript"),
    ("c++", "cpp"),
    ("golang", "go"),
    ("shell", "bash"),
    ("sh", "bash"),
];

/// SandboxFusion's other names. Its image has a runtime for each, which a template here has not.
const NOT_RUN: [&str; 23] = [
    "python2",
    "php",
    "csharp",
    "sql",
    "cuda",
    "lua",
    "R",
    "perl",
    "D_ut",
    "ruby",
    "scala",
    "julia",
    "pytest",
    "junit",
    "kotlin_script",
    "jest",
    "verilog",
    "python_gpu",
    "lean",
    "swift",
    "racket",
    "gtest",
    "react",
];

pub fn find(name: &str) -> Result<&'static Language> {
    let plain = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, plain)| plain);
    if let Some(language) = LANGUAGES.iter().find(|language| language.name == plain) {
        return Ok(language);
    }
    let known = LANGUAGES.iter().map(|language| language.name).collect::<Vec<_>>().join(", ");
    if NOT_RUN.contains(&name) {
        let message =
            format!("the language {name} of SandboxFusion is not run by this server; it runs {known}");
        return Err(Problem::sandbox("unsupported", message));
    }
    let shown = shorten(name);
    Err(Problem::field(&["language"], format!("language {shown:?} is not known; known are {known}")))
}

impl Language {
    /// A name for the code, which none of the caller's files has.
    pub fn file(&self, others: &BTreeMap<String, Vec<u8>>) -> String {
        if !self.file.starts_with(['.', '_']) {
            return self.file.to_string();
        }
        let mut name = String::from("run_code");
        while others.contains_key(&format!("{name}{}", self.file)) {
            name.push('_');
        }
        format!("{name}{}", self.file)
    }

    pub fn run_argv(&self, file: &str, class_path: &str) -> Vec<String> {
        match self.run {
            Run::Interpreter(interpreter) => vec![interpreter.into(), file.into()],
            Run::Made => vec![MADE.into()],
            Run::Script(script) => shell(script, file, class_path),
        }
    }

    pub fn compile_argv(&self, file: &str, class_path: &str) -> Option<Vec<String>> {
        self.compile.map(|script| shell(script, file, class_path))
    }

    /// True if a shell of ours looks for its tools when it is run.
    pub fn is_scripted(&self) -> bool {
        matches!(self.run, Run::Script(_))
    }

    pub fn is_typescript(&self) -> bool {
        self.scanned == "typescript"
    }

    pub fn missing(&self, template: &str) -> Problem {
        let message = format!(
            "template {template:?} has no {} for {}; build a template with it, and ask below its name: \
             http://HOST:PORT/run_code/in/TEMPLATE (docs/guides/integrations.md)",
            self.tools, self.name
        );
        Problem::sandbox("no_toolchain", message)
    }
}

fn shell(script: &str, file: &str, class_path: &str) -> Vec<String> {
    ["/bin/sh", "-c", &format!("{PLACES}{script}"), "sh", file, class_path].map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_client_is_run_or_refused_in_words() {
        for (name, found) in [("python", "python"), ("js", "nodejs"), ("c++", "cpp"), ("go_test", "go_test")]
        {
            assert_eq!(find(name).ok().map(|language| language.name), Some(found));
        }
        for name in NOT_RUN.into_iter().chain(["brainfuck", "", "Python"]) {
            assert!(find(name).is_err(), "{name}");
        }
        for (_, plain) in OTHER_NAMES {
            assert!(find(plain).is_ok(), "{plain}");
        }
    }

    #[test]
    fn no_file_of_the_caller_is_overwritten_by_the_code() {
        let mut others = BTreeMap::new();
        let python = find("python").expect("known");
        assert_eq!(python.file(&others), "run_code.py");
        others.insert("run_code.py".into(), Vec::new());
        assert_eq!(python.file(&others), "run_code_.py");
        assert_eq!(find("java").expect("known").file(&others), "Main.java");
    }
}
