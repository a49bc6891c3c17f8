//! A build from Debian's own packages. Skipped where no mirror answers.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, as_root, skip, until};
use std::time::Duration;

const NAME: &str = "builds_debian::debian_packages_become_a_template";
/// A minute's work, where nothing else runs and the mirror is near.
const LONG: Duration = Duration::from_secs(900);
/// The messages of apt if no server answers.
const NOBODY: [&str; 4] = ["Could not resolve", "Failed to fetch", "Unable to fetch", "Could not connect"];

#[test]
fn debian_packages_become_a_template() -> Result<()> {
    as_root(NAME, build_and_run)
}

fn build_and_run(caller: &Caller) -> Result<()> {
    let file = caller.file("small.toml", "base = 'debian:bookworm'\napt = ['hello']\n")?;
    let mut building = caller.paddock(["template", "build", &file.display().to_string()])?.start()?;
    until(LONG, "the end of the build", || building.has_ended().then_some(()))?;
    let built = building.finish()?;
    let said = built.err();
    if built.code != 0 && said.contains("is built from Debian's packages here, and the host has no") {
        skip(NAME, "the host has no apt");
        return Ok(());
    }
    if built.code != 0 && NOBODY.iter().any(|words| said.contains(words)) {
        skip(NAME, "no mirror of Debian's packages answers");
        return Ok(());
    }
    built.success()?;
    let script = "hello; whoami; stat -c '%A %U:%G' /etc/shadow; apt-get --version | head -1; dpkg --audit; cat /etc/apt/sources.list";
    let seen = caller.script(&["--template", "small"], script)?.success()?;
    ensure!(seen.starts_with("Hello, world!\nagent\n"), "{seen}");
    ensure!(seen.contains("-rw-r----- root:shadow"), "owners are not those of the packages: {seen}");
    ensure!(
        seen.contains("\napt 2") && seen.contains("deb http://deb.debian.org/debian bookworm main"),
        "{seen}"
    );
    // The image has nothing of how it was made.
    let script = "ls /run /var/cache/apt/archives /var/lib/apt/lists; find / -xdev -name '*.deb' -o -xdev -name 'keyring-0*'";
    let left = caller.script(&["--template", "small"], script)?.out();
    ensure!(!left.contains(".deb") && !left.contains("keyring-0") && !left.contains("paddock"), "{left}");
    a_script_gets_the_template_of_its_language(caller)
}

/// Built when it is needed first, on the same base. The command starts a server of its own: one that is named builds nothing.
fn a_script_gets_the_template_of_its_language(caller: &Caller) -> Result<()> {
    let text = "# sandbox\ndef main(name)\n  \"hello #{name}\"\nend\n";
    let file = caller.file("hello.rb", text)?.display().to_string();
    let words = ["script", "run", "--template", "ruby", &file, "--arg", "name=Ada"];
    let mut running = caller.paddock(words)?.start()?;
    let ended = until(LONG, "the end of the script", || running.has_ended().then_some(()));
    let first = running.finish();
    let second = caller.paddock(words)?.finish();
    end_server(caller)?;
    ended?;
    let (first, second) = (first?, second?);
    assert_eq!(
        (first.success()?.as_str(), second.success()?.as_str()),
        ("\"hello Ada\"\n", "\"hello Ada\"\n")
    );
    ensure!(first.err().contains("there is no template `ruby` yet; it is built once"), "{}", first.err());
    ensure!(!second.err().contains("template"), "{}", second.err());
    Ok(())
}

/// It would end by itself when idle; the test does not wait for that.
fn end_server(caller: &Caller) -> Result<()> {
    let state = format!("PADDOCK_STATE_DIR={}", caller.state().display());
    let servers = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ours = |path: &std::path::PathBuf| {
            let read = |name: &str| {
                String::from_utf8_lossy(&std::fs::read(path.join(name)).unwrap_or_default()).into_owned()
            };
            read("cmdline").contains("\0serve\0")
                && read("environ").split('\0').any(|variable| variable == state)
        };
        processes
            .filter(is_ours)
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .collect::<Vec<i32>>()
    };
    for server in servers() {
        let process = rustix::process::Pid::from_raw(server).context("a process")?;
        rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
    }
    until(PATIENCE, "the end of the server", || servers().is_empty().then_some(()))
}
