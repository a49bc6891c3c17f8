//! `--read`, `--write` and `--tmpfs`.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use std::os::unix::fs::MetadataExt;

for_both_callers!(
    read_only_directories,
    read_only_files,
    writable_directories,
    empty_directories_in_memory,
    what_does_not_exist_is_refused,
);

fn read_only_directories(caller: &Caller) -> Result<()> {
    let directory = caller.directory("data")?;
    std::fs::write(directory.join("file"), "content\n")?;
    caller.own(&directory.join("file"))?;
    let path = directory.display().to_string();
    let mapped = format!("{path}:/mnt/data");
    for (option, inside) in [(&path, path.as_str()), (&mapped, "/mnt/data")] {
        for user in ["agent", "root"] {
            let script = format!(
                "cat {inside}/file; touch {inside}/new || echo x > {inside}/file || rm {inside}/file"
            );
            let finished = caller.script(&["--user", user, "--read", option], &script)?;
            assert_eq!(finished.out(), "content\n");
            ensure!(finished.code != 0, "{user} wrote to a read-only mount");
        }
    }
    assert_eq!(std::fs::read_to_string(directory.join("file"))?, "content\n");
    assert_eq!(std::fs::read_dir(&directory)?.count(), 1);
    Ok(())
}

fn read_only_files(caller: &Caller) -> Result<()> {
    let file = caller.file("file", "content\n")?;
    let option = format!("{}:/mnt/file", file.display());
    let finished = caller.script(&["--read", &option], "cat /mnt/file; echo x > /mnt/file")?;
    assert_eq!(finished.out(), "content\n");
    ensure!(finished.code != 0, "a read-only file was written");
    assert_eq!(std::fs::read_to_string(file)?, "content\n");
    Ok(())
}

fn writable_directories(caller: &Caller) -> Result<()> {
    let directory = caller.directory("data")?;
    let option = format!("{}:/mnt/data", directory.display());
    let script = "echo made > /mnt/data/new && mkdir /mnt/data/.git && echo x > /mnt/data/.git/config";
    caller.script(&["--write", &option], script)?.success()?;
    assert_eq!(std::fs::read_to_string(directory.join("new"))?, "made\n");
    assert_eq!(directory.join("new").metadata()?.uid(), caller.uid);
    ensure!(directory.join(".git/config").exists(), "--write has no protected names");
    Ok(())
}

fn empty_directories_in_memory(caller: &Caller) -> Result<()> {
    let script =
        "test -z \"$(ls -A /scratch)\" && echo x > /scratch/file && cat /scratch/file && touch /srv/cache/y";
    let finished = caller.script(&["--tmpfs", "/scratch", "--tmpfs", "/srv/cache"], script)?;
    assert_eq!(finished.success()?, "x\n");
    ensure!(!std::path::Path::new("/scratch").exists(), "it was made on the host");
    Ok(())
}

fn what_does_not_exist_is_refused(caller: &Caller) -> Result<()> {
    for option in ["--read", "--write", "--workspace"] {
        caller.run([option, "/no/such/path", "--", "true"])?.refused(&["/no/such/path"])?;
    }
    caller.run(["--tmpfs", "relative", "--", "true"])?.refused(&["relative"])?;
    caller.run(["--tmpfs", "/", "--", "true"])?.refused(&["`/`"])?;
    caller.run(["--read", "/etc/passwd:relative", "--", "true"])?.refused(&["relative"])
}
