//! The program that a command becomes: its words, its variables, its user and where it is looked for.

use super::accounts::{self, Account};
use super::options::Command;
use std::collections::BTreeMap;
use std::ffi::CString;

/// The places in which the command is looked for, whatever the caller's own PATH.
const SAFE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the caller that the command has all the same: how it speaks, and how it reaches the network through the gate.
const KEPT: [&str; 18] = [
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "DEBIAN_FRONTEND",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "NO_COLOR",
    "COLUMNS",
];
const KEPT_PROXIES: [&str; 5] = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"];

/// The ids of the user that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
}

pub struct Program {
    pub account: Account,
    pub group: u32,
    pub groups: Vec<u32>,
    pub candidates: Vec<CString>,
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    /// `None`: where the caller is.
    pub directory: Option<String>,
}

type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

impl Program {
    pub fn of(command: &Command, caller: Caller, variables: &[Vec<u8>]) -> Result<Program, String> {
        let account = accounts::find(&command.user)?;
        let group = match command.group.as_str() {
            "" => account.gid,
            wanted => accounts::group(wanted)?,
        };
        let mut groups = accounts::groups_of(&account.name);
        groups.push(group);
        let own = split(variables);
        let (name, words) = words(command, &account, &own);
        let mut environment = environment(command, &account, &own);
        let told = words.iter().enumerate().map(|(at, word)| if at == 0 { &name } else { word });
        environment.insert(b"SUDO_COMMAND".to_vec(), told.map(Vec::as_slice).collect::<Vec<_>>().join(&b' '));
        for (variable, value) in [
            ("UID", caller.uid.to_string()),
            ("GID", caller.gid.to_string()),
            ("USER", accounts::name_of(caller.uid)),
        ] {
            environment.insert(format!("SUDO_{variable}").into(), value.into());
        }
        environment.extend(split(&command.variables));
        let directory = match &command.directory {
            None if command.login => Some(account.home.clone()),
            named => named.clone(),
        };
        let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| "a word has a NUL".to_string());
        let joined = environment.into_iter().map(|(name, value)| [name, b"=".to_vec(), value].concat());
        Ok(Program {
            group,
            groups,
            candidates: candidates(&name).into_iter().map(text).collect::<Result<_, _>>()?,
            argv: words.into_iter().map(text).collect::<Result<_, _>>()?,
            environment: joined.map(text).collect::<Result<_, _>>()?,
            directory,
            account,
        })
    }
}

fn split(variables: &[Vec<u8>]) -> Variables {
    let halves = variables.iter().filter_map(|variable| {
        let at = variable.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((variable[..at].to_vec(), variable[at + 1..].to_vec()))
    });
    halves.collect()
}

/// The name that is executed, and the words that the program sees.
fn words(command: &Command, account: &Account, own: &Variables) -> (Vec<u8>, Vec<Vec<u8>>) {
    let shell: Vec<u8> = match own.get(&b"SHELL"[..]).filter(|shell| shell.starts_with(b"/")) {
        Some(shell) if command.shell => shell.clone(),
        _ => account.shell.clone().into(),
    };
    if !command.shell && !command.login {
        return (command.words.first().cloned().unwrap_or_default(), command.words.clone());
    }
    let first = match command.login {
        true => [b"-", shell.rsplit(|byte| *byte == b'/').next().unwrap_or(b"sh")].concat(),
        false => shell.clone(),
    };
    let mut words = vec![first];
    if !command.words.is_empty() {
        words.push(b"-c".to_vec());
        words.push(command.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(&b' '));
    }
    (shell, words)
}

/// As `sudo` hands words to a shell: a `$` stays one, so that the shell reads variables of its own.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-$".contains(byte);
    word.iter().flat_map(|byte| if plain(byte) { vec![*byte] } else { vec![b'\\', *byte] }).collect()
}

fn environment(command: &Command, account: &Account, own: &Variables) -> Variables {
    let kept = |name: &[u8]| {
        let Ok(name) = std::str::from_utf8(name) else { return false };
        KEPT.contains(&name)
            || name.starts_with("LC_")
            || KEPT_PROXIES.contains(&name.to_lowercase().as_str())
            || command.keeps.iter().any(|keep| keep == name)
    };
    let mut found: Variables = own
        .iter()
        .filter(|(name, _)| command.keeps_all && !command.login || kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut set = |name: &str, value: &str| found.insert(name.into(), value.into());
    set("PATH", SAFE_PATH);
    set("USER", &account.name);
    set("LOGNAME", &account.name);
    if !command.keeps_all || command.login {
        set("SHELL", &account.shell);
    }
    let keeps_home = command.keeps_all || command.keeps.iter().any(|name| name == "HOME");
    if !keeps_home || command.sets_home || command.login {
        set("HOME", &account.home);
    }
    found
}

fn candidates(name: &[u8]) -> Vec<Vec<u8>> {
    match name.contains(&b'/') {
        true => vec![name.to_vec()],
        false => SAFE_PATH.split(':').map(|directory| [directory.as_bytes(), b"/", name].concat()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let [name, home, shell] = ["root", "/root", "/bin/bash"].map(String::from);
        Account { name, uid: 0, gid: 0, home, shell }
    }

    fn own() -> Variables {
        let all = [
            "PATH=/evil",
            "HOME=/home/user",
            "SHELL=/bin/zsh",
            "LD_PRELOAD=/x",
            "LC_ALL=C",
            "HTTPS_PROXY=p",
            "A=b",
            "bad",
            "=x",
        ];
        split(&all.map(|one| one.as_bytes().to_vec()))
    }

    fn value(found: &Variables, name: &str) -> String {
        String::from_utf8(found.get(name.as_bytes()).cloned().unwrap_or_default()).unwrap()
    }

    #[test]
    fn variables_of_the_caller_are_left_behind_unless_they_are_asked_for() {
        let plain = environment(&Command::default(), &account(), &own());
        let all = environment(&Command { keeps_all: true, ..Command::default() }, &account(), &own());
        let one = environment(&Command { keeps: vec!["A".into()], ..Command::default() }, &account(), &own());
        for (name, expected) in [
            ("PATH", [SAFE_PATH, SAFE_PATH, SAFE_PATH]),
            ("HOME", ["/root", "/home/user", "/root"]),
            ("LD_PRELOAD", ["", "/x", ""]),
            ("A", ["", "b", "b"]),
            ("LC_ALL", ["C", "C", "C"]),
            ("HTTPS_PROXY", ["p", "p", "p"]),
            ("USER", ["root", "root", "root"]),
            ("SHELL", ["/bin/bash", "/bin/zsh", "/bin/bash"]),
        ] {
            assert_eq!([&plain, &all, &one].map(|found| value(found, name)), expected, "{name}");
        }
        let home = Command { keeps_all: true, sets_home: true, ..Command::default() };
        assert_eq!(value(&environment(&home, &account(), &own()), "HOME"), "/root");
    }

    #[test]
    fn shells_get_their_command_in_one_word() {
        let words_of = |login, shell, command: &[&str]| {
            let words = command.iter().map(|word| word.as_bytes().to_vec()).collect();
            let (name, words) =
                super::words(&Command { login, shell, words, ..Command::default() }, &account(), &own());
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(name), words.into_iter().map(text).collect::<Vec<_>>())
        };
        assert_eq!(words_of(true, false, &[]), ("/bin/bash".into(), vec!["-bash".into()]));
        assert_eq!(
            words_of(false, true, &["a b", "$c;"]),
            ("/bin/zsh".into(), vec!["/bin/zsh".into(), "-c".into(), "a\\ b $c\\;".into()])
        );
        assert_eq!(words_of(false, false, &["id", "-u"]), ("id".into(), vec!["id".into(), "-u".into()]));
        assert_eq!(candidates(b"a/b"), [b"a/b"]);
        assert_eq!(candidates(b"id").len(), 6);
    }
}
