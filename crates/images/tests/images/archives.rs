use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use paddock_images::{ImageError, Progress};
use serde_json::json;
use tar::EntryType;

use crate::support::*;

fn hello() -> Vec<u8> {
    let tar = Tar::new().directory("./").directory("./bin/").file("./bin/sh", "shell");
    tar.symlink("./sh", "/bin/sh").hard_link("./bin/bash", "./bin/sh").done()
}

const HELLO: [&str; 4] = ["bin", "bin/bash", "bin/sh", "sh -> /bin/sh"];

#[tokio::test]
async fn a_directory_is_used_where_it_is() {
    let lab = Lab::new();
    fs::create_dir(lab.path("root")).unwrap();
    std::os::unix::fs::symlink("root", lab.path("link")).unwrap();
    let image = lab.resolve_path(&lab.path("link")).await.unwrap();
    assert_eq!(image.root, lab.path("root").canonicalize().unwrap());
    assert_eq!((image.digest, image.command.len()), (None, 0));
    assert!(listing(&lab.path("root")).is_empty());
}

#[tokio::test]
async fn an_archive_may_be_compressed_in_any_usual_way() {
    let plain = hello();
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    for bytes in [plain.clone(), gzip(&plain), zstd] {
        let lab = Lab::new();
        let image = lab.resolve(&bytes).await.unwrap();
        assert_eq!(listing(&image.root), HELLO);
        assert_eq!(image.digest, Some(digest(&bytes)));
        lab.assert_clean();
    }
    // `xz` of an archive with the one file "hello", twice over: once as one stream, once as two.
    let xz = include_bytes!("hello.tar.xz");
    for bytes in [xz.to_vec(), [&xz[..], &xz[..]].concat()] {
        let lab = Lab::new();
        let image = lab.resolve(&bytes).await.map(|image| (listing(&image.root), image.digest));
        assert_eq!(image.unwrap().0, ["hello"]);
    }
}

#[tokio::test]
async fn what_is_kept_of_a_file() {
    let lab = Lab::new();
    let mode = |mode: u32| move |header: &mut tar::Header| header.set_mode(mode);
    let tar = Tar::new()
        .entry(EntryType::Directory, b"closed", b"", b"", mode(0o000))
        .entry(EntryType::Regular, b"closed/secret", b"", b"x", mode(0o000))
        .entry(EntryType::Regular, b"sudo", b"", b"x", mode(0o6755))
        .entry(EntryType::Directory, b"tmp", b"", b"", mode(0o1777))
        .entry(EntryType::Regular, b"owned", b"", b"x", |header| {
            header.set_uid(1234);
            header.set_gid(5678);
        })
        .pax(&[
            ("SCHILY.xattr.user.note", b"x"),
            ("SCHILY.xattr.security.capability", b"\x01\0\0\x02\0\x04\0\0"),
        ])
        .file("capable", "x");
    let root = lab.resolve(&tar.done()).await.unwrap().root;
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("sudo"), mode("tmp"), mode("")), (0o755, 0o1777, 0o755));
    assert_eq!(fs::metadata(root.join("closed")).unwrap().mtime(), TIME as i64);
    assert_eq!(fs::metadata(root.join("sudo")).unwrap().mtime(), TIME as i64);
    let owned = fs::metadata(root.join("owned")).unwrap();
    if is_root() {
        assert_eq!((owned.uid(), owned.gid()), (1234, 5678));
        assert_eq!((mode("closed"), mode("closed/secret")), (0, 0));
    } else {
        assert_eq!(owned.uid(), rustix::process::geteuid().as_raw());
        assert_eq!((mode("closed"), mode("closed/secret")), (0o700, 0o600));
    }
    let mut names = [0_u8; 1024];
    let length = rustix::fs::listxattr(root.join("capable"), &mut names).unwrap_or(0);
    assert!(!String::from_utf8_lossy(&names[..length]).contains("capability"));
}

#[tokio::test]
async fn an_archive_is_unpacked_once() {
    #[derive(Default)]
    struct Steps(Mutex<Vec<String>>);
    impl Progress for Steps {
        fn start(&self, what: &str, _total: Option<u64>) {
            self.0.lock().unwrap().push(what.to_owned());
        }
        fn advance(&self, _bytes: u64) {}
        fn done(&self) {}
    }
    for bytes in [hello(), Image::hello().docker_save(), tar_of(&Image::hello().layout_files(|_| {}))] {
        let lab = Lab::new();
        let path = lab.write("archive", &bytes);
        let first = lab.resolve_path(&path).await.unwrap();
        let steps = Steps::default();
        let second = lab.store.resolve(path.to_str().unwrap(), &steps).await.unwrap();
        assert_eq!(first, second);
        assert_eq!(*steps.0.lock().unwrap(), ["reading"]);
    }
}

#[tokio::test]
async fn images_on_disk_are_flattened_and_bring_their_settings() {
    let lab = Lab::new();
    let image = Image::hello();
    let files = image.layout_files(|_| {});
    write_files(&lab.path("layout"), &files);
    let from_directory = lab.resolve_path(&lab.path("layout")).await.unwrap();
    let from_tar = lab.resolve(&gzip(&tar_of(&files))).await.unwrap();
    let from_docker = lab.resolve(&image.docker_save()).await.unwrap();
    assert_eq!(from_directory, from_tar);
    for found in [&from_directory, &from_docker] {
        assert_eq!(listing(&found.root), ["bin", "bin/sh", "hello"]);
        assert_eq!(found.environment["PATH"], "/bin");
        assert_eq!((found.user.as_deref(), found.cwd.as_deref()), (Some("1000"), Some("/work")));
        assert_eq!(found.command, ["/bin/sh", "-c", "true"]);
    }
    assert_eq!(from_docker.digest, Some(digest(image.config.to_string().as_bytes())));
    lab.assert_clean();
}

#[tokio::test]
async fn docker_save_may_share_a_layer_by_a_link_but_not_reach_out() {
    let layer = Tar::new().file("hello", "world").done();
    let config = Image::new(vec![layer.clone()]).config.to_string();
    let manifest = json!([{"Config": "c.json", "Layers": ["a/layer.tar"]}]).to_string();
    let start = Tar::new().file("c.json", &config).file("manifest.json", &manifest);
    let lab = Lab::new();
    let outside = lab.write("outside.tar", &layer);
    let inside = start.clone().entry(EntryType::Regular, b"b/layer.tar", b"", &layer, |_| {});
    let inside = inside.symlink("a/layer.tar", "../b/layer.tar").done();
    assert_eq!(listing(&lab.resolve(&inside).await.unwrap().root), ["hello"]);

    let lab = Lab::new();
    for target in [outside.to_str().unwrap(), "../../../../../outside.tar"] {
        let error = lab.resolve(&start.clone().symlink("a/layer.tar", target).done()).await.unwrap_err();
        assert!(matches!(error, ImageError::Io { .. }), "{error:?}");
    }
    lab.assert_clean();
}

#[tokio::test]
async fn what_was_promised_is_checked() {
    let spoil = |change: fn(&mut serde_json::Value)| Image::hello().layout_files(change);
    let other_digest = digest(b"other");
    let mut wrong_diff_id = Image::hello();
    wrong_diff_id.config["rootfs"]["diff_ids"][1] = json!(other_digest);
    let mut wrong_layer = Image::hello().layout_files(|_| {});
    let layer = gzip(&Image::hello().layers[0]);
    for (_, bytes) in wrong_layer.iter_mut().filter(|(_, bytes)| *bytes == layer) {
        *bytes.last_mut().unwrap() ^= 1;
    }
    let mut other_platform = Image::hello();
    other_platform.config["architecture"] = json!("s390x");
    type Check = fn(&ImageError) -> bool;
    type Files = Vec<(String, Vec<u8>)>;
    let cases: [(Files, Check); 8] = [
        (wrong_diff_id.layout_files(|_| {}), |error| matches!(error, ImageError::DigestMismatch { .. })),
        (wrong_layer, |error| {
            matches!(error, ImageError::DigestMismatch { .. } | ImageError::DamagedArchive { .. })
        }),
        (spoil(|manifest| manifest["layers"][0]["size"] = json!(1)), |error| {
            matches!(error, ImageError::SizeMismatch { .. })
        }),
        (spoil(|manifest| manifest["config"]["size"] = json!(1)), |error| {
            matches!(error, ImageError::SizeMismatch { .. })
        }),
        (spoil(|manifest| manifest["layers"][0]["urls"] = json!(["http://127.0.0.1/x"])), |error| {
            matches!(error, ImageError::ForeignLayer { .. })
        }),
        (spoil(|manifest| manifest["layers"][0]["mediaType"] = json!("text/plain")), |error| {
            matches!(error, ImageError::UnknownMediaType { .. })
        }),
        (
            spoil(|manifest| manifest["layers"] = json!(vec![manifest["layers"][0].clone(); 10_000])),
            |error| matches!(error, ImageError::LimitExceeded { what: "layers", .. }),
        ),
        (other_platform.layout_files(|_| {}), |error| matches!(error, ImageError::NoPlatform { .. })),
    ];
    for (number, (files, expected)) in cases.into_iter().enumerate() {
        let lab = Lab::new();
        write_files(&lab.path("layout"), &files);
        let error = lab.resolve_path(&lab.path("layout")).await.unwrap_err();
        assert!(expected(&error), "case {number}: {error:?}");
        assert!(listing(&lab.path("images/roots")).is_empty());
        lab.assert_clean();
    }
}

#[tokio::test]
async fn damaged_archives_are_errors() {
    let whole = gzip(&Tar::new().file("a", &"x".repeat(5000)).file("b", "y").done());
    let long = Tar::new().file("a", &"x".repeat(5000)).done();
    let mut flipped = whole.clone();
    let length = flipped.len();
    flipped[length - 6] ^= 1;
    for bytes in [
        &whole[..whole.len() - 1],
        &whole[..whole.len() / 2],
        &flipped,
        &long[..1024],
        b"not an archive at all",
    ] {
        let lab = Lab::new();
        let error = lab.resolve(bytes).await.unwrap_err();
        assert!(matches!(error, ImageError::DamagedArchive { .. }), "{error:?}");
        lab.assert_clean();
    }
}

#[tokio::test]
async fn what_is_no_image_is_told_apart() {
    let lab = Lab::new();
    let error = lab.resolve_path(&lab.path("missing")).await.unwrap_err();
    assert!(matches!(error, ImageError::NoSuchPath { .. }) && error.hint().is_some());
    let pipe = lab.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert!(matches!(lab.resolve_path(&pipe).await.unwrap_err(), ImageError::NotAnImage { .. }));
    for empty in [Vec::new(), Tar::new().done()] {
        assert!(matches!(lab.resolve(&empty).await.unwrap_err(), ImageError::NotAnImage { .. }));
    }
    lab.assert_clean();
}
