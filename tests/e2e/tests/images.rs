//! `--image`: every form of a root, made here around a static busybox.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Tar, for_both_callers, images, skip};
use std::path::PathBuf;

for_both_callers!(
    a_directory,
    a_directory_of_somebody_else,
    a_directory_stays_as_it_is,
    a_tar,
    a_compressed_tar,
    an_oci_layout,
    a_docker_archive,
    the_images_own_settings_are_used,
    settings_of_the_caller_win,
    writes_are_private,
    root_inside_may_write_anywhere,
    a_user_of_the_image_is_known_by_name,
    an_image_with_a_workspace,
    an_image_with_a_link_for_dev_is_refused,
);

/// Builds the image and tests it, unless this host has nothing to build it from.
pub fn with_busybox(caller: &Caller, test: impl FnOnce(&Caller, Vec<u8>) -> Result<()>) -> Result<()> {
    match images::busybox() {
        Ok(busybox) => test(caller, busybox),
        Err(reason) => {
            skip("images", &reason);
            Ok(())
        }
    }
}

fn greets(caller: &Caller, image: &str) -> Result<()> {
    // Twice: made the first time, found the second.
    let run = || caller.run(["--image", image, "--", "cat", "/etc/greeting"]);
    assert_eq!(run()?.success()?, images::GREETING);
    let finished = run()?;
    assert_eq!(finished.success()?, images::GREETING);
    assert_eq!(finished.err(), "", "nobody waits for an image that is there");
    let finished = caller.run(["--image", image, "--", "ls", "/usr/bin/python3"])?;
    ensure!(finished.code != 0, "the host's /usr is in the image");
    Ok(())
}

pub fn image_directory(caller: &Caller, busybox: &[u8]) -> Result<(PathBuf, String)> {
    let directory = caller.directory("image")?;
    images::directory(&directory, busybox)?;
    caller.own_all(&directory)?;
    let text = directory.display().to_string();
    Ok((directory, text))
}

pub fn docker_archive(caller: &Caller, busybox: &[u8]) -> Result<String> {
    Ok(caller.file("image.tar", images::docker_archive(busybox)?)?.display().to_string())
}

pub fn a_directory(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| greets(caller, &image_directory(caller, &busybox)?.1))
}

/// Such as an image that root unpacked for all users.
fn a_directory_of_somebody_else(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let directory = caller.directory("image")?;
        images::directory(&directory, &busybox)?;
        let image = directory.display().to_string();
        if caller.is_root {
            return greets(caller, &image);
        }
        // Files that belong to root cannot be shifted to another id without being root.
        let refused = caller.run(["--image", &image, "--", "true"])?;
        refused.refused(&[&image, "has to be yours"])
    })
}

pub fn a_directory_stays_as_it_is(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let (directory, image) = image_directory(caller, &busybox)?;
        let before = images::fingerprint(&directory)?;
        let script =
            "echo x > /etc/greeting; echo x > /new; rm -rf /srv /bin/wc; mkdir /etc/dir; cat /etc/greeting";
        let finished = caller.script(&["--user", "root", "--image", &image], script)?;
        assert_eq!(finished.success()?, "x\n");
        assert_eq!(images::fingerprint(&directory)?, before);
        greets(caller, &image)
    })
}

fn a_tar(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = caller.file("root.tar", images::tar(&busybox).finish())?;
        greets(caller, &image.display().to_string())
    })
}

fn a_compressed_tar(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = caller.file("root.tar.gz", images::gzip(&images::tar(&busybox).finish())?)?;
        greets(caller, &image.display().to_string())
    })
}

pub fn an_oci_layout(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let layout = caller.directory("layout")?;
        images::oci_layout(&layout, &busybox)?;
        greets(caller, &layout.display().to_string())
    })
}

fn a_docker_archive(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| greets(caller, &docker_archive(caller, &busybox)?))
}

pub fn the_images_own_settings_are_used(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let layout = caller.directory("layout")?;
        images::oci_layout(&layout, &busybox)?;
        for image in [layout.display().to_string(), docker_archive(caller, &busybox)?] {
            let finished = caller.run(["--image", &image])?;
            assert_eq!(finished.success()?, "image command in /srv, FROM_IMAGE=yes\n");
        }
        Ok(())
    })
}

fn settings_of_the_caller_win(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = docker_archive(caller, &busybox)?;
        let options = ["--image", &image, "--env", "FROM_IMAGE=no", "--cwd", "/etc"];
        let finished = caller.script(&options, "echo $FROM_IMAGE $PATH; pwd")?;
        assert_eq!(finished.success()?, "no /bin\n/etc\n");
        Ok(())
    })
}

pub fn writes_are_private(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = docker_archive(caller, &busybox)?;
        let options = ["--image", &image, "--user", "root"];
        caller.script(&options, "echo changed > /etc/greeting; touch /tmp/x /new")?.success()?;
        let finished = caller.script(&options, "cat /etc/greeting; ls /new /tmp/x")?;
        assert_eq!(finished.out(), images::GREETING);
        ensure!(finished.code != 0, "a file of the run before is there");
        Ok(())
    })
}

pub fn root_inside_may_write_anywhere(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = docker_archive(caller, &busybox)?;
        let script = "touch /etc/new /bin/new /tmp/new && id -u";
        assert_eq!(caller.script(&["--image", &image, "--user", "root"], script)?.success()?, "0\n");
        // The agent may not: the image's files belong to root.
        if caller.is_root {
            let finished = caller.script(&["--image", &image], "touch /etc/new")?;
            ensure!(finished.code != 0, "the agent wrote to /etc");
        }
        caller.script(&["--image", &image], "touch /tmp/x ~/x && mkdir ~/y")?.success()?;
        Ok(())
    })
}

pub fn a_user_of_the_image_is_known_by_name(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let tar = images::tar(&busybox);
        let tar = tar.file("etc/passwd", 0o644, b"root:x:0:0::/:/bin/sh\nbaker:x:4321:1234::/srv:/bin/sh\n");
        let image = caller.file("users.tar", tar.finish())?.display().to_string();
        let finished = caller.script(&["--image", &image, "--user", "nobody-such"], "true")?;
        finished.refused(&["nobody-such"])?;
        let finished = caller.script(&["--image", &image, "--user", "baker"], "id -u; id -g")?;
        if !caller.is_root && finished.code == 125 {
            // Without a range of host ids there is no second id to give.
            return finished.refused(&["baker", "host ids"]);
        }
        assert_eq!(finished.success()?, "4321\n1234\n");
        Ok(())
    })
}

pub fn an_image_with_a_workspace(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        let image = docker_archive(caller, &busybox)?;
        let workspace = caller.directory("workspace")?;
        let options = ["--image", &image, "--workspace", &workspace.display().to_string()];
        let finished = caller.script(&options, "pwd; echo x > made; cat /etc/greeting")?;
        assert_eq!(finished.success()?, format!("/workspace\n{}", images::GREETING));
        assert_eq!(std::fs::read_to_string(workspace.join("made"))?, "x\n");
        // An empty image, without even the directories that everything is mounted on.
        let tar = Tar::default().file("sh", 0o755, &busybox);
        let bare = caller.file("bare.tar", tar.finish())?.display().to_string();
        let finished = caller.run([
            "--image",
            &bare,
            "--",
            "/sh",
            "-c",
            "echo works > /tmp/x; echo $(read l < /tmp/x; echo $l)",
        ])?;
        assert_eq!(finished.success()?, "works\n");
        Ok(())
    })
}

pub fn an_image_with_a_link_for_dev_is_refused(caller: &Caller) -> Result<()> {
    with_busybox(caller, |caller, busybox| {
        for name in ["dev", "proc", "sys"] {
            let tar = images::tar(&busybox).link(name, "tmp");
            let image = caller.file(&format!("{name}.tar"), tar.finish())?.display().to_string();
            let finished = caller.script(&["--image", &image], "true")?;
            finished.refused(&[&format!("its /{name} is no directory"), "or leave it out"])?;
        }
        Ok(())
    })
}
