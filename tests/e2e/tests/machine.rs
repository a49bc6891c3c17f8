//! Hosts that lack something: space, or the permission to make namespaces.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, Invocation, Tar, for_both_callers, skip};
use std::process::Command;

for_both_callers!(a_full_disk, a_disk_that_fills_up, no_user_namespaces, nowhere_to_keep_state);

/// Runs a script as root in a mount namespace of its own, with a small tmpfs as the caller's state directory.
/// `$P` in it is Paddock as the caller.
fn on_small_disk(caller: &Caller, name: &str, size: &str, script: &str) -> Result<Option<Finished>> {
    if !rustix::process::geteuid().is_root() {
        skip(name, "only root can make a small disk");
        return Ok(None);
    }
    let state = caller.directory("disk")?;
    let identity = match caller.is_root {
        true => String::new(),
        false => format!("setpriv --reuid {0} --regid {0} --clear-groups", caller.uid),
    };
    let prelude = format!(
        "mount -t tmpfs -o size={size},mode=700,uid={0},gid={0} none {1} || exit 99\n\
         P='{identity} env -i HOME={2} PATH=/usr/bin:/bin PADDOCK_STATE_DIR={1} {3}'; S={1}\n",
        caller.uid,
        state.display(),
        caller.home().display(),
        caller.executable()?.display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &(prelude + script)]);
    Ok(Some(Invocation::new(command).finish()?))
}

fn a_full_disk(caller: &Caller) -> Result<()> {
    let script = "head -c 10000000 /dev/zero > $S/full 2>/dev/null; $P run -- echo ran; echo code $?; cd $S; find . -type f";
    let Some(finished) = on_small_disk(caller, "machine::a_full_disk", "256k", script)? else {
        return Ok(());
    };
    assert_eq!(finished.success()?, "code 125\n./full\n");
    ensure!(finished.err().contains("No space left on device"), "{}", finished.err());
    Ok(())
}

/// Paddock itself has found its place, but the image finds none.
fn a_disk_that_fills_up(caller: &Caller) -> Result<()> {
    let tar = Tar::default().directory("bin/").file("bin/large", 0o755, &vec![b'x'; 12 << 20]);
    let image = caller.file("large.tar", tar.finish())?;
    let script = format!(
        "$P run -- echo works; (cd $S; find . -type f | sort) > /dev/shm/$$.before\n\
         $P run --image {} -- true; echo code $?\n\
         cd $S; find . -type f -size +0 | sort | grep -vxFf /dev/shm/$$.before; rm /dev/shm/$$.before; $P run -- echo still",
        image.display()
    );
    let Some(finished) = on_small_disk(caller, "machine::a_disk_that_fills_up", "8m", &script)? else {
        return Ok(());
    };
    assert_eq!(finished.success()?, "works\ncode 125\nstill\n", "{}", finished.err());
    ensure!(finished.err().contains("is full"), "{}", finished.err());
    Ok(())
}

fn no_user_namespaces(caller: &Caller) -> Result<()> {
    if caller.is_root {
        skip(
            "machine::no_user_namespaces",
            "the limit of a namespace of its own would make it an ordinary user",
        );
        return Ok(());
    }
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n\
                  exec setpriv --inh-caps=-all --ambient-caps=-all \"$@\"";
    let run = |arguments: &[&str]| -> Result<Finished> {
        let mut command = caller.program("unshare");
        command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"]);
        command.arg(caller.executable()?).args(arguments);
        Invocation::new(command).finish()
    };
    let workspace = caller.directory("workspace")?;
    let finished = run(&["run", "--workspace", &workspace.display().to_string(), "--", "echo", "ran"])?;
    if finished.code == 99 || finished.err().contains("unshare: ") {
        skip(
            "machine::no_user_namespaces",
            &format!("such a machine cannot be made here: {}", finished.err()),
        );
        return Ok(());
    }
    finished.refused(&["namespaces", "max_user_namespaces"])?;
    assert_eq!(std::fs::read_dir(&workspace)?.count(), 0);
    // The doctor sees it, and tells the remedy.
    let doctor = run(&["doctor"])?;
    ensure!(doctor.out().contains("max_user_namespaces"), "{}", doctor.out());
    Ok(())
}

fn nowhere_to_keep_state(caller: &Caller) -> Result<()> {
    if caller.is_root {
        return Ok(());
    }
    let mut invocation = caller.start_run(["--", "true"])?;
    invocation.command().env_remove("HOME");
    invocation.finish()?.refused(&["PADDOCK_STATE_DIR"])?;
    let finished =
        caller.start_run(["--", "true"])?.environment("PADDOCK_STATE_DIR", "/proc/none").finish()?;
    finished.refused(&["/proc/none"])
}
