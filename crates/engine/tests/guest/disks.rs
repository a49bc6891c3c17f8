//! The disk's own layer: listed, packed, taken out of one sandbox and put into another.

use crate::support::{Place, all_of, run, spec};
use paddock_engine::FileErrorKind;
use paddock_model::{Disk, Root, Spec};
use std::collections::BTreeMap;

async fn there_and_back(spec: impl Fn() -> Spec, expected_deletions: &[&str]) {
    let place = Place::new(spec());
    let sandbox = place.create().await;
    assert!(sandbox.ready_at() > 1_500_000_000_000_000_000);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    run(
        &sandbox,
        1,
        "mkdir -p /tmp/d/e; echo hi > /tmp/d/e/f; chmod 751 /tmp/d/e/f; ln /tmp/d/e/f /tmp/d/again; ln -s e/f /tmp/d/link; \
         truncate -s 1T /tmp/d/huge; printf end | dd of=/tmp/d/huge bs=1 seek=1000000000000 conv=notrunc 2>/dev/null",
    )
    .await;
    if !expected_deletions.is_empty() {
        run(
            &sandbox,
            2,
            "rm -r /data/gone /data/replaced && mkdir /data/replaced && echo new > /data/replaced/new",
        )
        .await;
    }
    let manifest = sandbox.disk().manifest().await.unwrap();
    let layer: BTreeMap<String, _> = manifest.into_iter().map(|e| (e.entry.path.clone(), e)).collect();
    let changed = |path: &str| layer[path].changed_ns as u64 > sandbox.ready_at();
    assert!(changed("/tmp/d/e/f") && changed("/tmp/d/link") && !changed("/etc/hostname"));
    assert!(!layer.keys().any(|path| path.starts_with("/proc/") || path.starts_with("/usr/bin")));
    for path in expected_deletions {
        assert!(layer[*path].whiteout, "{path}");
    }
    if !expected_deletions.is_empty() {
        assert!(layer["/data/replaced"].opaque);
    }
    let paths = [&b"/tmp/d/e/f"[..], b"/tmp/d/link", b"/tmp/nothing", b"/tmp/d/link/../../etc"];
    let mut download = sandbox.disk().pack(paths).await.unwrap();
    let end = loop {
        match download.next().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "a path with dots is refused");
    let packed = all_of(sandbox.disk().pack(paths[..3].iter().copied()).await.unwrap()).await;
    let names: Vec<String> = tar::Archive::new(packed.as_slice())
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["tmp/d/e/f", "tmp/d/link"]);

    let exported = all_of(sandbox.disk().export().await.unwrap()).await;
    assert!(exported.len() < 2 << 20, "holes are left out: {} bytes", exported.len());
    let mut late = sandbox.disk().import().unwrap();
    let refused = match late.write(&exported).await {
        Err(error) => error,
        Ok(()) => late.finish().await.unwrap_err(),
    };
    assert_eq!(refused.kind, FileErrorKind::Unsupported, "{refused}");
    let look = "cd /tmp && find d /data 2>/dev/null | sort | xargs stat -c '%n %F %a %u %g %h %s %Y'; tail -c +1000000000001 d/huge | head -c 3";
    let before = run(&sandbox, 3, look).await;
    sandbox.end(None).unwrap();

    let place = Place::new(spec());
    let sandbox = place.create().await;
    let mut import = sandbox.disk().import().unwrap();
    import.write(&exported).await.unwrap();
    assert!(import.finish().await.unwrap() >= sandbox.ready_at());
    assert_eq!(run(&sandbox, 1, look).await, before);
    assert!(before.ends_with("end"), "{before}");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_plain_disk() {
    there_and_back(spec, &[]).await;
}

#[tokio::test]
async fn a_disk_over_an_image() {
    let image = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("usr/bin", image.path().join("bin")).unwrap();
    for name in ["tmp", "data/gone", "data/replaced", "usr", "etc"] {
        std::fs::create_dir_all(image.path().join(name)).unwrap();
    }
    std::fs::write(image.path().join("data/replaced/old"), "old").unwrap();
    for name in ["lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), image.path().join(name)).unwrap();
    }
    // The tools of the host, as if they were the image's own.
    let usr = paddock_model::Mount {
        source: Some("/usr".into()),
        target: "/usr".into(),
        access: paddock_model::Access::Read,
    };
    for path in ["", "tmp", "data", "data/gone", "data/replaced", "usr", "etc"] {
        let path = image.path().join(path);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let root = Root::Directory { path: image.path().canonicalize().unwrap() };
    // A disk in memory would need user.* attributes there, which Linux has since 6.6 and not everywhere.
    let disks = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    let fresh = || {
        number.set(number.get() + 1);
        let path = disks.path().canonicalize().unwrap().join(number.get().to_string());
        std::fs::create_dir(&path).unwrap();
        let owner = Some(paddock_backends::NEUTRAL_ID);
        std::os::unix::fs::chown(&path, owner, owner).unwrap();
        let disk = Disk::Directory { path, start: None };
        Spec { root: root.clone(), mounts: vec![usr.clone()], disk, ..spec() }
    };
    there_and_back(fresh, &["/data/gone"]).await;
}
