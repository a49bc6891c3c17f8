//! Nonsense gets exit code 125, a message that names it, and leaves nothing.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, Tar, for_both_callers};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

for_both_callers!(
    a_missing_command,
    limits_that_mean_nothing,
    images_that_cannot_be_read,
    archives_that_reach_outside,
    archives_that_are_broken,
    workspaces_that_are_refused,
    names_with_control_characters,
    arguments_that_are_too_long,
    many_arguments,
    state_directories_that_are_refused,
);

fn a_missing_command(caller: &Caller) -> Result<()> {
    caller.run([] as [&str; 0])?.refused(&["command"])?;
    caller.run(["--"])?.refused(&["command"])?;
    let empty = caller.run(["--", ""])?;
    ensure!([125, 127].contains(&empty.code) && !empty.err().is_empty(), "{empty:?}");
    ensure!(!caller.state().join("run").exists() || caller.is_root, "a sandbox was begun");
    Ok(())
}

fn limits_that_mean_nothing(caller: &Caller) -> Result<()> {
    for limit in ["memory", "cpus", "pids", "disk", "files", "output", "timeout"] {
        for value in ["0", "-1", "9e99", "", " ", "1x", "NaN", "inf", "1\n2"] {
            let finished = caller.run([&format!("--{limit}={value}"), "--", "echo", "ran"])?;
            let shown = value.replace('\n', "\\n");
            finished
                .refused(&[limit, &shown])
                .map_err(|error| error.context(format!("--{limit}={value:?}")))?;
        }
    }
    Ok(())
}

fn images_that_cannot_be_read(caller: &Caller) -> Result<()> {
    let secret = caller.file("secret.tar", Tar::default().directory("bin/").finish())?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000))?;
    if !caller.is_root {
        let path = secret.display().to_string();
        caller.run(["--image", &path, "--", "true"])?.refused(&[&path, "ermission denied"])?;
    }
    for name in ["/no/such/image", "./no/such/image.tar"] {
        caller.run(["--image", name, "--", "true"])?.refused(&[name])?;
    }
    let empty = caller.file("empty", "")?.display().to_string();
    caller.run(["--image", &empty, "--", "true"])?.refused(&[&empty])?;
    let text = caller.file("text", "this is no archive\n".repeat(100))?.display().to_string();
    caller.run(["--image", &text, "--", "true"])?.refused(&[&text])?;
    let pipe = caller.place().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o666.into(), 0)?;
    let pipe = pipe.display().to_string();
    caller.run(["--image", &pipe, "--", "true"])?.refused(&[&pipe])?;
    caller.run(["--image", "/dev/zero", "--", "true"])?.refused(&["/dev/zero"])
}

/// In all cases, nothing appears outside and no device inside.
fn archives_that_reach_outside(caller: &Caller) -> Result<()> {
    let outside = caller.directory("outside")?;
    let absolute = outside.join("absolute").display().to_string();
    let up = format!("{}{}", "../".repeat(12), &outside.join("up").display().to_string()[1..]);
    let through = outside.display().to_string();
    let cases = [
        ("up.tar", Tar::default().file(&up, 0o644, b"x"), "../"),
        ("middle.tar", Tar::default().directory("a/").file(&format!("a/{up}"), 0o644, b"x"), "../"),
        ("absolute.tar", Tar::default().file(&absolute, 0o644, b"x"), &absolute),
        ("link.tar", Tar::default().link("door", &through).file("door/through", 0o644, b"x"), "door"),
        ("device.tar", Tar::default().directory("dev/").device("dev/evil"), "dev/evil"),
    ];
    for (name, tar, named) in cases {
        let image = caller.file(name, tar.finish())?.display().to_string();
        let finished = caller.run(["--image", &image, "--", "/true"])?;
        finished.refused(&[named]).map_err(|error| error.context(name))?;
        assert_eq!(std::fs::read_dir(&outside)?.count(), 0, "{name} wrote outside");
    }
    nothing_unpacked(caller)
}

fn archives_that_are_broken(caller: &Caller) -> Result<()> {
    let whole = Tar::default().directory("bin/").file("bin/x", 0o755, &[b'x'; 4000]).finish();
    let cut = caller.file("cut.tar", &whole[..2000])?.display().to_string();
    caller.run(["--image", &cut, "--", "true"])?.refused(&[&cut])?;
    let mut flipped = whole.clone();
    flipped[3] ^= 1;
    let flipped = caller.file("flipped.tar", flipped)?.display().to_string();
    caller.run(["--image", &flipped, "--", "true"])?.refused(&[&flipped])?;
    let compressed = paddock_e2e::images::gzip(&whole)?;
    let cut = caller.file("cut.tar.gz", &compressed[..compressed.len() - 9])?.display().to_string();
    caller.run(["--image", &cut, "--", "true"])?.refused(&[&cut])?;
    nothing_unpacked(caller)
}

fn nothing_unpacked(caller: &Caller) -> Result<()> {
    let roots = caller.state().join("images/roots");
    let count = std::fs::read_dir(&roots).map_or(0, |entries| entries.count());
    assert_eq!(count, 0, "something is left in {}", roots.display());
    Ok(())
}

fn workspaces_that_are_refused(caller: &Caller) -> Result<()> {
    for path in ["/", "/proc", "/sys", "/dev", "/etc", "/usr", "//", "/usr/.."] {
        let finished = caller.run(["--workspace", path, "--", "echo", "ran"])?;
        let named = if path.contains("..") || path == "//" { "`/`" } else { path };
        finished.refused(&[named]).map_err(|error| error.context(path))?;
    }
    let file = caller.file("file", "x")?.display().to_string();
    caller.run(["--workspace", &file, "--", "true"])?.refused(&[&file])?;
    // The place of the files that Paddock trusts.
    caller.run(["--", "true"])?.success()?;
    let state = caller.state().display().to_string();
    caller.run(["--workspace", &state, "--", "true"])?.refused(&[&state])?;
    caller.run(["--write", &state, "--", "true"])?.refused(&[&state])?;
    if !caller.is_root {
        let closed = caller.directory("closed")?;
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000))?;
        let path = closed.display().to_string();
        let finished = caller.run(["--workspace", &path, "--", "true"])?;
        // Else we could not remove it ourselves.
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700))?;
        finished.refused(&[&path])?;
    }
    Ok(())
}

fn names_with_control_characters(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?.display().to_string();
    let cases: [&[&str]; 8] = [
        &["--hostname", "a\nb"],
        &["--hostname", "\u{1b}[31mred"],
        &["--env", "A\nB=1"],
        &["--user", "a\nb"],
        &["--tmpfs", "/a\nb"],
        &["--image", "a\nb"],
        &["--template", "a\nb"],
        &["--workspace", &workspace, "--protect", "a\nb"],
    ];
    for options in cases {
        let finished = caller.run(options.iter().chain(&["--", "echo", "ran"]))?;
        finished.refused(&[]).map_err(|error| error.context(format!("{options:?}")))?;
        let message = finished.err();
        // The value is shown, but characters that move a terminal's cursor are escaped.
        ensure!(
            message.contains("a\\nb") || message.contains("A\\nB") || message.contains("[31mred"),
            "{message:?}"
        );
        ensure!(!message.contains('\u{1b}') && !message.contains("a\nb"), "{message:?}");
    }
    Ok(())
}

fn arguments_that_are_too_long(caller: &Caller) -> Result<()> {
    // The kernel lets no user start a program with such an argument; a policy file can hold one.
    let text = format!("command = [\"echo\", \"{}\"]\n", "x".repeat(200_000));
    let file = caller.file("long.toml", text)?.display().to_string();
    caller.run(["--policy", &file])?.refused(&["argument 1", "128 KiB"])?;
    let text = format!("command = [\"echo\"]\n[env]\nLONG = \"{}\"\n", "x".repeat(200_000));
    let file = caller.file("environment.toml", text)?.display().to_string();
    caller.run(["--policy", &file])?.refused(&["LONG"])
}

fn many_arguments(caller: &Caller) -> Result<()> {
    let piece = "x".repeat(100_000);
    let run = |count: usize| -> Result<Finished> {
        let mut invocation = caller.start_run(["--", "sh", "-c", "echo $#", "sh"])?;
        invocation.command().args(std::iter::repeat_n(&piece, count));
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe {
            // More room for arguments than usual, so that Paddock gets to see them.
            invocation.command().pre_exec(|| {
                let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
                libc::setrlimit(libc::RLIMIT_STACK, &raw const unlimited);
                Ok(())
            });
        }
        invocation.finish()
    };
    assert_eq!(run(8)?.success()?, "8\n");
    run(30)?.refused(&["the command and its environment", "at most"])
}

fn state_directories_that_are_refused(caller: &Caller) -> Result<()> {
    let shared = caller.directory("shared")?;
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777))?;
    let file = caller.file("file", "x")?;
    for path in [&shared, &file, Path::new("relative")] {
        let path = path.display().to_string();
        let finished = caller.start_run(["--", "true"])?.environment("PADDOCK_STATE_DIR", &path).finish()?;
        finished.refused(&[&path])?;
    }
    assert_eq!(std::fs::read_dir(&shared)?.count(), 0);
    Ok(())
}
