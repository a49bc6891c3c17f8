//! The command as its user sees it, called in process: its arguments, its output, its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests; clippy lets it pass only in the tests themselves")]

use paddock_cli::{Caller, Terminals};
use std::ffi::OsString;
use std::path::Path;
use tempfile::TempDir;

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Every test has a state directory of its own.
struct Machine {
    directory: TempDir,
    terminals: Terminals,
    variables: Vec<(OsString, OsString)>,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let variables = vec![("PADDOCK_STATE_DIR".into(), directory.path().join("state").into())];
        Machine { directory, terminals: Terminals::default(), variables }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn paddock(&self, words: &[&str]) -> Answer {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut caller = Caller {
            environment: self.variables.iter().cloned().collect(),
            terminals: self.terminals,
            backends: paddock_engine::backends_of_this_build,
            stdin: &mut std::io::empty(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let words = ["paddock"].iter().chain(words).map(OsString::from);
        let code = paddock_cli::run(words, &mut caller);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Answer { code, stdout: text(stdout), stderr: text(stderr) }
    }

    /// The message of a call that has to fail, with the test's own directory named `DIR`.
    fn refusal(&self, words: &[&str], code: i32) -> String {
        let answer = self.paddock(words);
        assert_eq!(answer.code, code, "{words:?}: {}", answer.stderr);
        assert_eq!(answer.stdout, "", "{words:?}");
        let real = self.directory.path().canonicalize().unwrap();
        answer.stderr.replace(&real.display().to_string(), "DIR")
    }
}

#[test]
fn every_help_has_an_example_and_run_documents_its_exit_codes() {
    let machine = Machine::new();
    for words in [
        &["run", "--help"][..],
        &["code", "--help"],
        &["doctor", "--help"],
        &["verify", "--help"],
        &["template", "ls", "--help"],
        &["template", "add", "--help"],
        &["template", "show", "--help"],
        &["template", "rm", "--help"],
        &["create", "--help"],
        &["exec", "--help"],
        &["cp", "--help"],
        &["serve", "--help"],
        &["audit", "verify", "--help"],
    ] {
        let answer = machine.paddock(words);
        assert_eq!(answer.code, 0, "{words:?}");
        assert!(answer.stdout.contains("Example"), "{words:?}: {}", answer.stdout);
        assert!(!answer.stdout.contains('\u{1b}'), "{words:?} is coloured without a terminal");
    }
    let help = machine.paddock(&["run", "--help"]).stdout;
    for code in ["124", "125", "126", "127", "128+n", "137"] {
        assert!(help.contains(&format!("\n  {code} ")), "{code} is not in:\n{help}");
    }
    assert!(machine.paddock(&["--help"]).stdout.contains("PADDOCK_STATE_DIR"));
}

#[test]
fn a_missing_command_says_where_to_write_it() {
    let expected = "error: no command was given\n\
                    hint: write it after the options, as in `paddock run -- python3 script.py`\n";
    for words in [&["run"][..], &["run", "--"], &["run", "--memory", "1g"]] {
        assert_eq!(Machine::new().refusal(words, 125), expected);
    }
}

#[test]
fn bad_values_name_themselves_and_the_remedy() {
    let machine = Machine::new();
    let cases: [(&[&str], &str); 11] = [
        (
            &["--workspace", "/"],
            "error: workspace `/` is refused: it is the whole host\n\
             hint: name the project's own directory\n",
        ),
        (
            &["--workspace", "/etc"],
            "error: workspace `/etc` is refused: it is a system directory\nhint: name the project's own directory\n",
        ),
        (&["--memory", "0"], "error: memory limit `0` is zero: a size must be at least one byte\n"),
        (&["--pids=-1"], "error: pids limit `-1` is not a count: write a positive whole number such as 64\n"),
        (
            &["--timeout", "9e99"],
            "error: timeout limit `9e99` is not a duration: write a positive number with a unit, such as 500ms, 30s, 5m, 1h30m, 2d or 1w\n",
        ),
        (
            &["--cpus", "-1"],
            "error: cpus limit `-1` is not a number of processors: write a positive number such as 0.5 or 2\n",
        ),
        (
            &["--hostname", "a\nb"],
            "error: host name `a\\nb` is not allowed: use 1 to 63 of a-z, A-Z, 0-9, `-` and `.`, beginning and ending with a letter or digit\n",
        ),
        (
            &["--template", "nope"],
            "error: there is no template `nope`\nhint: `paddock template ls` lists those there are\n",
        ),
        (
            &["--policy", "/nonexistent.toml"],
            "error: policy file `/nonexistent.toml` cannot be read\n  caused by: No such file or directory (os error 2)\n",
        ),
        (
            &["--protect", "x"],
            "error: --protect and --unprotect need a workspace, and there is none\nhint: add --workspace DIR\n",
        ),
        (
            &["--env", "=x"],
            "error: environment variable `` is not allowed: the name of a variable is not empty and has no `=`, NUL or newline\n",
        ),
    ];
    for (flags, expected) in cases {
        let words: Vec<&str> = ["run"].iter().chain(flags).chain(&["--", "true"]).copied().collect();
        assert_eq!(machine.refusal(&words, 125), expected, "{flags:?}");
    }
}

#[test]
fn a_policy_file_with_a_mistake_is_named_with_line_and_remedy() {
    let machine = Machine::new();
    let file = machine.path("policy.toml");
    std::fs::write(&file, "image = 'x'\n[limits]\nmemroy = 1\n").unwrap();
    let expected = "error: policy file `DIR/policy.toml`\n  \
                    caused by: line 3: `limits.memroy` is not a setting; did you mean `limits.memory`?\n";
    assert_eq!(machine.refusal(&["run", "--policy", &file, "true"], 125), expected);
}

#[test]
fn an_env_file_with_a_mistake_is_named_with_its_line() {
    let machine = Machine::new();
    let file = machine.path("env");
    std::fs::write(&file, "A=1\nexport B=2\n").unwrap();
    let message = machine.refusal(&["run", "--env-file", &file, "true"], 125);
    assert!(
        message
            .starts_with("error: env file `DIR/env`\n  caused by: line 2\n  caused by: environment variable")
    );
}

#[test]
fn an_argument_list_that_is_too_long_starts_nothing() {
    let machine = Machine::new();
    let argument = "x".repeat(100 << 10);
    let words: Vec<&str> =
        ["run", "--", "true"].into_iter().chain(std::iter::repeat_n(&*argument, 21)).collect();
    let message = machine.refusal(&words, 125);
    assert!(
        message.starts_with("error: the command and its environment are 2101 KiB long together"),
        "{message}"
    );
}

#[test]
fn a_terminal_is_demanded_where_there_is_none() {
    let message = Machine::new().refusal(&["run", "-it", "bash"], 125);
    assert!(message.starts_with("error: the input device is not a TTY\n"), "{message}");
}

#[test]
fn usage_errors_are_125_where_a_command_would_run_and_2_elsewhere() {
    let machine = Machine::new();
    assert!(machine.refusal(&["run", "--memroy", "1g", "true"], 125).contains("'--memory'"));
    assert!(machine.refusal(&["code", "--frob"], 125).starts_with("error: unexpected argument '--frob'"));
    machine.refusal(&["template", "frob"], 2);
    machine.refusal(&["frob"], 2);
}

#[test]
fn what_the_caller_typed_cannot_speak_to_the_terminal() {
    let mut machine = Machine::new();
    machine.terminals = Terminals { stdin: false, stdout: true, stderr: true };
    let message = machine.refusal(&["run", "--\u{1b}]0;owned\u{7}", "true"], 125);
    assert!(!message.contains('\u{1b}'), "{message:?}");
    let message = machine.refusal(&["run", "--policy", "\u{1b}[2J", "true"], 125);
    assert!(message.contains("\\u{1b}[2J") && !message.contains("\u{1b}[2J"), "{message:?}");
}

#[test]
fn colour_is_for_terminals_without_no_color() {
    let mut machine = Machine::new();
    machine.terminals.stderr = true;
    assert!(machine.paddock(&["run"]).stderr.starts_with("\u{1b}[1;31merror:\u{1b}[0m"));
    machine.variables.push(("NO_COLOR".into(), "1".into()));
    assert!(machine.paddock(&["run"]).stderr.starts_with("error:"));
}

#[test]
fn a_template_is_added_shown_listed_and_removed() {
    let machine = Machine::new();
    let built_in =
        "(built in: the host's /usr)  -      -     Python, Node and shells, as far as the host has them";
    let listed = machine.paddock(&["template", "ls"]).stdout;
    assert!(listed.ends_with(&format!("code-interpreter  {built_in}\n")), "{listed}");
    let add = ["template", "add", "py", "--image", "python:3.12", "--memory", "1GiB", "--", "python3", "-q"];
    assert_eq!(machine.paddock(&add).code, 0);
    assert_eq!(
        machine.paddock(&["template", "show", "py"]).stdout,
        "image = \"python:3.12\"\ncommand = [\"python3\", \"-q\"]\n\n[limits]\nmemory = \"1GiB\"\n"
    );
    let listed = machine.paddock(&["template", "ls"]).stdout;
    assert!(
        listed.ends_with("py                python:3.12                  -      -     python3 -q\n"),
        "{listed}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&machine.paddock(&["template", "ls", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["built_in"]), (&"code-interpreter".into(), &true.into()));
    assert_eq!(json[1]["settings"]["limits"]["memory"], "1GiB");
    assert_eq!(
        machine.refusal(&add, 1),
        "error: there is a template `py` already\nhint: --force replaces it\n"
    );
    assert_eq!(machine.paddock(&["template", "add", "py", "--force"]).code, 0);
    assert_eq!(machine.paddock(&["template", "rm", "py"]).code, 0);
    machine.refusal(&["template", "rm", "py"], 1);
}

#[test]
fn a_template_with_a_bad_value_is_not_kept() {
    let machine = Machine::new();
    machine.refusal(&["template", "add", "x", "--memory", "0"], 1);
    machine.refusal(&["template", "add", "../x"], 1);
    assert!(!Path::new(&machine.path("state/templates/x.toml")).exists());
}

#[test]
fn a_workspace_that_holds_the_state_is_refused() {
    let machine = Machine::new();
    let message = machine.refusal(&["run", "--workspace", &machine.path(""), "true"], 125);
    assert!(
        message.starts_with("error: workspace `DIR` is refused: it holds Paddock's own state (DIR/state)")
    );
    assert!(message.contains("hint: name a directory that does not hold Paddock's state"), "{message}");
}

#[test]
fn a_source_file_that_is_not_there_is_not_run_as_text() {
    let message = Machine::new().refusal(&["code", "nope.py"], 125);
    assert!(message.starts_with("error: source file `nope.py` does not exist\nhint: "), "{message}");
}

fn with_url(url: &str) -> Machine {
    let mut machine = Machine::new();
    machine.variables.push(("PADDOCK_URL".into(), url.into()));
    machine
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let machine = with_url("unix:/nonexistent/api.sock");
    let expected = "error: no server listens at unix:/nonexistent/api.sock\n  \
                    caused by: No such file or directory (os error 2)\n\
                    hint: start it there with `paddock serve`, or unset PADDOCK_URL to use one of your own\n";
    for words in
        [&["ps"][..], &["inspect", "x"], &["kill", "x"], &["snapshot", "ls"], &["top"], &["token", "ls"]]
    {
        assert_eq!(machine.refusal(words, 1), expected, "{words:?}");
    }
    assert_eq!(
        machine.refusal(&["exec", "x", "true"], 125),
        expected,
        "a command's own codes are kept apart"
    );
    let message = with_url("box:7070").refusal(&["ps"], 1);
    assert!(
        message.starts_with("error: PADDOCK_URL `box:7070` is not an address: write http://"),
        "{message}"
    );
}

#[test]
fn mistakes_are_told_before_a_server_is_asked() {
    let machine = with_url("unix:/nonexistent/api.sock");
    let cases: [(&[&str], i32, &str); 8] = [
        (
            &["create", "--memory", "0"],
            1,
            "error: memory limit `0` is zero: a size must be at least one byte\n",
        ),
        (&["create", "--timeout", "none"], 1, "error: no limit at all cannot be asked for here\nhint: "),
        (
            &["create", "--idle", "600:sleep"],
            2,
            "error: invalid value '600:sleep' for '--idle <SECONDS[:ACTION]>'",
        ),
        (&["cp", "a", "b"], 1, "error: one of source and destination has to be ID:PATH\nhint: "),
        (&["cp", "a:/x", "b:/y"], 1, "error: from one sandbox to another is two copies"),
        (&["quota", "team", "--cpus", "lots"], 1, "error: --cpus `lots` is not a quota\nhint: "),
        (&["exec", "-it", "x", "sh"], 125, "error: the input device is not a TTY\n"),
        (&["kill"], 2, "error: the following required arguments were not provided"),
    ];
    for (words, code, expected) in cases {
        let message = machine.refusal(words, code);
        assert!(message.starts_with(expected), "{words:?}: {message}");
    }
}

#[test]
fn a_timeline_is_verified_without_a_server() {
    let machine = with_url("unix:/nonexistent/api.sock");
    let message = machine.refusal(&["audit", "verify", "/nonexistent"], 1);
    assert!(message.starts_with("error: public key `DIR/state/audit.pub` cannot be read\n"), "{message}");
    assert!(message.contains("hint: --key names the public key"), "{message}");
    let message = machine.refusal(&["audit", "verify", "--key", "nonsense", "/nonexistent"], 1);
    assert!(message.starts_with("error: `nonsense` is not a public key"), "{message}");
}
