//! A build from Debian's own packages. Skipped where no mirror answers.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, as_root, skip, until};
use std::time::Duration;

const NAME: &str = "builds_debian::debian_packages_become_a_template";
/// A minute's work, where nothing else runs and the mirror is near.
const LONG: Duration = Duration::from_secs(900);
/// What apt says where nobody answers it.
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
    Ok(())
}
