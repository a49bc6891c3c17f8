//! Images behind a kernel in user space: the same tests as with the process backend, and the life of a sandbox of an image.

use crate::gvisor::behind_gvisor;
use crate::images::{self, image_directory, with_busybox};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, images::fingerprint};

behind_gvisor!(
    images::a_directory,
    images::a_directory_stays_as_it_is,
    images::an_oci_layout,
    images::the_images_own_settings_are_used,
    images::writes_are_private,
    images::root_inside_may_write_anywhere,
    images::a_user_of_the_image_is_known_by_name,
    images::an_image_with_a_workspace,
    own::limits_hold_over_an_image,
    own::a_sandbox_of_an_image_is_copied_compared_and_merged,
);

mod own {
    use super::*;

    pub fn limits_hold_over_an_image(caller: &Caller) -> Result<()> {
        with_busybox(caller, |caller, busybox| {
            let (_, image) = image_directory(caller, &busybox)?;
            let full = "cat /dev/zero > /srv/full; test $(wc -c < /srv/full) -le 8388608 && echo held";
            let full = caller.script(&["--image", &image, "--user", "root", "--disk", "8MiB"], full)?;
            ensure!(
                full.success()? == "held\n" && full.err().contains("No space left on device"),
                "{full:?}"
            );
            let grows = "a=xxxxxxxxxxxxxxxx; while true; do a=$a$a; done";
            let large = caller.script(&["--image", &image, "--memory", "64MiB"], grows)?;
            large.exited(137)?;
            ensure!(large.err().contains("out of memory: limit 64 MiB"), "{}", large.err());
            caller.script(&["--image", &image, "--timeout", "1s"], "sleep 60")?.exited(124).map(drop)
        })
    }

    pub fn a_sandbox_of_an_image_is_copied_compared_and_merged(caller: &Caller) -> Result<()> {
        with_busybox(caller, |caller, busybox| {
            let (directory, image) = image_directory(caller, &busybox)?;
            let before = fingerprint(&directory)?;
            let server = Server::start(caller)?;
            let id = server.create(&["--image", &image, "--user", "root"])?;
            assert_eq!(server.run(["diff", &id])?.success()?, "nothing was changed\n");
            let change =
                "echo changed > /etc/greeting; rm /bin/id; mkdir /srv/new; echo made > /srv/new/file";
            server.script(&id, change)?.success()?;
            let target = format!("/v1/sandboxes/{id}/files/content?path=/srv/new/sent");
            server.send("PUT", &target, "", b"sent")?.ok()?;
            assert_eq!(server.send("GET", &target, "", b"")?.ok()?.body, b"sent");
            let changed = server.run(["diff", &id])?.success()?;
            for line in ["~     greeting", "-     id", "+       file", "+       sent"] {
                ensure!(changed.contains(line), "{line} is not in {changed}");
            }
            server.run(["snapshot", "create", &id, "--name", "then"])?.success()?;
            let child = server.run(["fork", &id])?.success()?.trim().to_string();
            let look = "cat /etc/greeting /srv/new/file; test -e /bin/id || echo gone";
            assert_eq!(server.script(&child, look)?.success()?, "changed\nmade\ngone\n");
            server
                .script(&child, "echo child > /srv/new/file; echo more > /srv/more; rm /bin/pwd")?
                .success()?;
            assert_eq!(server.script(&id, "cat /srv/new/file")?.success()?, "made\n");
            server.run(["merge", &id, &child])?.success()?;
            let merged = "cat /srv/new/file /srv/more; test -e /bin/pwd || echo gone";
            assert_eq!(server.script(&id, merged)?.success()?, "child\nmore\ngone\n");
            server.run(["hibernate", &id])?.success()?;
            assert_eq!(server.script(&id, merged)?.success()?, "child\nmore\ngone\n");
            let then = server.create(&["--snapshot", "then"])?;
            assert_eq!(server.script(&then, look)?.success()?, "changed\nmade\ngone\n");
            server.run(["snapshot", "rm", "then"])?.success()?;
            assert_eq!(fingerprint(&directory)?, before);
            Ok(())
        })
    }
}
