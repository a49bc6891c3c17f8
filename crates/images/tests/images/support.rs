//! Builders for archives and images, good and bad.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use paddock_images::{ImageError, ImageStore, NoProgress, Refusal, ResolvedImage, UnpackLimits};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};
use tempfile::TempDir;

pub const TIME: u64 = 1_700_000_000;

/// A state directory, and a place for archives beside it.
pub struct Lab {
    pub directory: TempDir,
    pub store: ImageStore,
}

impl Lab {
    pub fn new() -> Self {
        Self::with_limits(UnpackLimits::default())
    }

    pub fn with_limits(limits: UnpackLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::open_with_limits(&directory.path().join("images"), limits).unwrap();
        Self { directory, store }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub async fn resolve_path(&self, path: &Path) -> Result<ResolvedImage, ImageError> {
        self.store.resolve(path.to_str().unwrap(), &NoProgress).await
    }

    pub async fn resolve(&self, bytes: &[u8]) -> Result<ResolvedImage, ImageError> {
        self.resolve_path(&self.write("archive", bytes)).await
    }

    /// Resolves the layers as an image.
    pub async fn resolve_layers(&self, layers: Vec<Vec<u8>>) -> Result<ResolvedImage, ImageError> {
        self.resolve(&Image::new(layers).docker_save()).await
    }

    /// Only finished work may be there, whatever happened.
    pub fn assert_clean(&self) {
        let left: Vec<_> =
            fs::read_dir(self.path("images/temporary")).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

pub fn refusal(error: &ImageError) -> Refusal {
    match error {
        ImageError::RefusedEntry { refusal, .. } => *refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A tar archive, written byte by byte, because a decent library would refuse such content.
#[derive(Default, Clone)]
pub struct Tar(Vec<u8>);

impl Tar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name.as_bytes(), b"", content.as_bytes(), |_| {})
    }

    pub fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name.as_bytes(), b"", b"", |header| header.set_mode(0o755))
    }

    pub fn symlink(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, name.as_bytes(), target.as_bytes(), b"", |_| {})
    }

    pub fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Link, name.as_bytes(), target.as_bytes(), b"", |_| {})
    }

    pub fn special(self, kind: EntryType, name: &str) -> Self {
        self.entry(kind, name.as_bytes(), b"", b"", |_| {})
    }

    /// A PAX header for the entry that follows.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut content = Vec::new();
        for (key, value) in records {
            let bare = key.len() + value.len() + 3;
            let mut length = bare + 1;
            while length != bare + length.to_string().len() {
                length += 1;
            }
            content.extend(format!("{length} {key}=").into_bytes());
            content.extend(*value);
            content.push(b'\n');
        }
        self.entry(EntryType::XHeader, b"pax", b"", &content, |_| {})
    }

    /// A GNU long name for the entry that follows.
    pub fn long_name(self, name: &[u8]) -> Self {
        self.entry(EntryType::GNULongName, b"././@LongLink", b"", name, |_| {})
    }

    pub fn entry(
        mut self,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        content: &[u8],
        change: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(TIME);
        header.set_size(content.len() as u64);
        change(&mut header);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn done(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

pub fn this_architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" }
}

/// An image of uncompressed layers.
pub struct Image {
    pub layers: Vec<Vec<u8>>,
    pub config: Value,
}

impl Image {
    pub fn new(layers: Vec<Vec<u8>>) -> Self {
        let diff_ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
        let config = json!({
            "os": "linux", "architecture": this_architecture(), "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "config": {"Env": ["PATH=/bin", "LANG=C"], "User": "1000", "WorkingDir": "/work",
                       "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "true"]},
        });
        Self { layers, config }
    }

    pub fn hello() -> Self {
        Self::new(vec![Tar::new().directory("bin/").file("bin/sh", "shell").file("old", "old").done(), {
            Tar::new().file("hello", "world").file(".wh.old", "").done()
        }])
    }

    /// The documents and layers, each named by its digest; and the manifest. Layers are compressed.
    pub fn blobs(&self) -> (Vec<Vec<u8>>, Value) {
        let layers: Vec<_> = self.layers.iter().map(|layer| gzip(layer)).collect();
        let config = self.config.to_string().into_bytes();
        let describe = |bytes: &[u8], kind: &str| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": describe(&config, "config.v1+json"),
            "layers": layers.iter().map(|layer| describe(layer, "layer.v1.tar+gzip")).collect::<Vec<_>>(),
        });
        let blobs = layers.into_iter().chain([config]).collect();
        (blobs, manifest)
    }

    /// The files of an OCI layout; `change` can spoil the manifest.
    pub fn layout_files(&self, change: impl FnOnce(&mut Value)) -> Vec<(String, Vec<u8>)> {
        let (mut blobs, mut manifest) = self.blobs();
        change(&mut manifest);
        let manifest = manifest.to_string().into_bytes();
        let index = json!({"schemaVersion": 2, "manifests": [index_entry(&manifest, this_architecture())]});
        blobs.push(manifest);
        let mut files = vec![
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion": "1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        files.extend(blobs.into_iter().map(|blob| (digest(&blob).replace("sha256:", "blobs/sha256/"), blob)));
        files
    }

    pub fn docker_save(&self) -> Vec<u8> {
        let names: Vec<_> = (0..self.layers.len()).map(|number| format!("{number}/layer.tar")).collect();
        let manifest = json!([{"Config": "config.json", "RepoTags": ["x:latest"], "Layers": names}]);
        let mut tar = Tar::new()
            .file("config.json", &self.config.to_string())
            .file("manifest.json", &manifest.to_string());
        for (name, layer) in names.iter().zip(&self.layers) {
            tar = tar.entry(EntryType::Regular, name.as_bytes(), b"", layer, |_| {});
        }
        tar.done()
    }
}

pub fn index_entry(manifest: &[u8], architecture: &str) -> Value {
    json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest), "size": manifest.len(),
        "platform": {"os": "linux", "architecture": architecture},
    })
}

pub fn write_files(directory: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Tar::new();
    for (name, bytes) in files {
        tar = tar.entry(EntryType::Regular, name.as_bytes(), b"", bytes, |_| {});
    }
    tar.done()
}

/// All paths below a directory, sorted; links with their target.
pub fn listing(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name =
                String::from_utf8_lossy(path.strip_prefix(root).unwrap().as_os_str().as_bytes()).into_owned();
            if let Ok(target) = fs::read_link(&path) {
                found.push(format!("{name} -> {}", target.display()));
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            }
            found.push(name);
        }
    }
    found.sort();
    found
}
