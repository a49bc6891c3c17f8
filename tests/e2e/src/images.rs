//! Root file systems around a static busybox.

use crate::Tar;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

const BUSYBOX: &str = "/bin/busybox";
/// The programs that the tests run inside.
const APPLETS: [&str; 14] =
    ["sh", "cat", "echo", "env", "id", "ls", "mkdir", "pwd", "rm", "sleep", "test", "touch", "true", "wc"];
pub const GREETING: &str = "made for the test\n";

/// Or the reason why there is none on this host.
pub fn busybox() -> Result<Vec<u8>, String> {
    let bytes =
        std::fs::read(BUSYBOX).map_err(|error| format!("{BUSYBOX}: {error} (package busybox-static)"))?;
    if bytes.windows(8).any(|window| window == b"/ld-linu" || window == b"ld-musl-") && is_dynamic(&bytes) {
        return Err(format!("{BUSYBOX} is not static (package busybox-static)"));
    }
    Ok(bytes)
}

/// True if a 64-bit ELF file asks for a loader: a program header of type PT_INTERP.
fn is_dynamic(elf: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        elf.get(at..at + length)
            .map_or(0, |b| b.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|index| number(table + index * size, 4) == 3)
}

pub fn tar(busybox: &[u8]) -> Tar {
    let directories = ["bin/", "etc/", "tmp/", "home/", "srv/"];
    let tar = directories.iter().fold(Tar::default(), |tar, name| tar.directory(name));
    let tar = tar.file("bin/busybox", 0o755, busybox);
    let tar = APPLETS.iter().fold(tar, |tar, name| tar.link(&format!("bin/{name}"), "busybox"));
    tar.file("etc/greeting", 0o644, GREETING.as_bytes())
}

pub fn directory(path: &Path, busybox: &[u8]) -> Result<()> {
    for name in ["bin", "etc", "tmp", "home", "srv"] {
        std::fs::create_dir_all(path.join(name))?;
        std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    let executable = path.join("bin/busybox");
    std::fs::write(&executable, busybox)?;
    std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755))?;
    for name in APPLETS {
        symlink("busybox", path.join("bin").join(name))?;
    }
    Ok(std::fs::write(path.join("etc/greeting"), GREETING)?)
}

/// A root with the Python of this host: the interpreter, its libraries, and its standard library as it is compiled.
pub fn python(path: &Path) -> Result<()> {
    let script = include_str!("../../../scripts/python-root.sh");
    let made = Command::new("sh").args(["-c", script, "sh"]).arg(path).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// The config of an image with its own environment, directory and command.
pub fn config(layer: &[u8]) -> Result<Value> {
    Ok(json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {
            "Env": ["PATH=/bin", "FROM_IMAGE=yes"],
            "WorkingDir": "/srv",
            "Cmd": ["sh", "-c", "echo image command in $(pwd), FROM_IMAGE=$FROM_IMAGE"],
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer)?)] },
    }))
}

/// The three blobs of an image with one layer.
pub struct Blobs {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub layer: Vec<u8>,
}

pub fn blobs(busybox: &[u8]) -> Result<Blobs> {
    let plain = tar(busybox).finish();
    let config = serde_json::to_vec(&config(&plain)?)?;
    let layer = gzip(&plain)?;
    let described = |kind: &str, bytes: &[u8]| -> Result<Value> {
        let media_type = format!("application/vnd.oci.image.{kind}");
        Ok(
            json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(bytes)?), "size": bytes.len() }),
        )
    };
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", &config)?,
        "layers": [described("layer.v1.tar+gzip", &layer)?],
    }))?;
    Ok(Blobs { manifest, config, layer })
}

pub fn oci_layout(path: &Path, busybox: &[u8]) -> Result<()> {
    let Blobs { manifest, config, layer } = blobs(busybox)?;
    let store = path.join("blobs/sha256");
    std::fs::create_dir_all(&store)?;
    for bytes in [&manifest, &config, &layer] {
        std::fs::write(store.join(sha256(bytes)?), bytes)?;
    }
    std::fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let index = json!({ "schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": format!("sha256:{}", sha256(&manifest)?),
        "size": manifest.len(),
    }]});
    Ok(std::fs::write(path.join("index.json"), serde_json::to_vec(&index)?)?)
}

/// The output of `docker save`.
pub fn docker_archive(busybox: &[u8]) -> Result<Vec<u8>> {
    let layer = tar(busybox).finish();
    let config = serde_json::to_vec(&config(&layer)?)?;
    let (config_name, layer_name) = (format!("{}.json", sha256(&config)?), "0123456789abcdef/layer.tar");
    let manifest =
        json!([{ "Config": config_name, "RepoTags": ["paddock/e2e:latest"], "Layers": [layer_name] }]);
    let outer = Tar::default().file(&config_name, 0o644, &config).directory("0123456789abcdef/");
    let outer = outer.file(layer_name, 0o644, &layer);
    Ok(outer.file("manifest.json", 0o644, &serde_json::to_vec(&manifest)?).finish())
}

pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    filter(Command::new("gzip").args(["-1", "-c"]), bytes)
}

pub fn sha256(bytes: &[u8]) -> Result<String> {
    let line = String::from_utf8(filter(&mut Command::new("sha256sum"), bytes)?)?;
    Ok(line.split(' ').next().context("sha256sum said nothing")?.to_string())
}

/// Names, kinds, owners, times and contents of a whole tree, as one number.
pub fn fingerprint(path: &Path) -> Result<String> {
    let script = "{ find . -printf '%p %y %m %U %G %s %T@ %l\\n'; find . -type f -exec sha256sum {} +; } | LC_ALL=C sort";
    let output = Command::new("sh").args(["-c", script]).current_dir(path).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sha256(&output.stdout)
}

fn filter(command: &mut Command, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(bytes));
        child.wait_with_output()
    })?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(output.stdout)
}
