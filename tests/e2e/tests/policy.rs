//! `--policy FILE`: the same as flags, and mistakes are found with their place.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(
    a_policy_is_the_same_as_flags,
    flags_win,
    an_unknown_key_names_its_line_and_the_nearest_key,
    bad_values_and_files_are_refused,
);

fn policy(caller: &Caller, name: &str, text: &str) -> Result<String> {
    Ok(caller.file(name, text)?.display().to_string())
}

fn a_policy_is_the_same_as_flags(caller: &Caller) -> Result<()> {
    let text = r#"
user = "root"
hostname = "barn"
cwd = "/tmp"
tmpfs = ["/scratch"]
command = ["sh", "-c", "echo $(id -u) $(cat /proc/sys/kernel/hostname) $(pwd) $NAME $(ulimit -n); touch /scratch/x"]

[env]
NAME = "a value"

[limits]
memory = "128MiB"
files = 77
timeout = "50s"
"#;
    let file = policy(caller, "policy.toml", text)?;
    assert_eq!(caller.run(["--policy", &file])?.success()?, "0 barn /tmp a value 77\n");
    let output = caller.run(["--policy", &file, "--explain"])?.success()?;
    for word in ["128 MiB", "77", "50 s", "barn", "/scratch"] {
        ensure!(output.contains(word), "no {word:?} in:\n{output}");
    }
    Ok(())
}

fn flags_win(caller: &Caller) -> Result<()> {
    let file =
        policy(caller, "policy.toml", "hostname = \"barn\"\nuser = \"root\"\ncommand = [\"false\"]\n")?;
    let script = "id -u; cat /proc/sys/kernel/hostname";
    let finished = caller.script(&["--policy", &file, "--hostname", "stable"], script)?;
    assert_eq!(finished.success()?, "0\nstable\n");
    Ok(())
}

fn an_unknown_key_names_its_line_and_the_nearest_key(caller: &Caller) -> Result<()> {
    let file = policy(caller, "top.toml", "user = \"root\"\n\nhostnam = \"x\"\n")?;
    caller.run(["--policy", &file, "--", "true"])?.refused(&[&file, "line 3", "hostnam", "`hostname`"])?;
    let file = policy(caller, "limits.toml", "[limits]\npids = 5\nmemroy = \"1GiB\"\n")?;
    caller.run(["--policy", &file, "--", "true"])?.refused(&[&file, "line 3", "memroy", "memory`"])
}

fn bad_values_and_files_are_refused(caller: &Caller) -> Result<()> {
    let cases = [
        ("type.toml", "user = 5\n", "line 1"),
        ("syntax.toml", "user = \"root\"\nnet = [\n", "line"),
        ("value.toml", "[limits]\nmemory = \"lots\"\n", "lots"),
        ("net.toml", "net = \"bridge\"\n", "bridge"),
        ("nul.toml", "hostname = \"a\\u0000b\"\n", "host name"),
        ("argument.toml", "command = [\"echo\", \"a\\u0000b\"]\n", "NUL"),
    ];
    for (name, text, word) in cases {
        let file = policy(caller, name, text)?;
        caller
            .run(["--policy", &file, "--", "true"].iter().take(if word == "NUL" { 2 } else { 4 }))?
            .refused(&[word])?;
    }
    caller.run(["--policy", "/no/such/file", "--", "true"])?.refused(&["/no/such/file"])
}
