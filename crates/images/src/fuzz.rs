//! Entry points for fuzzing: hostile bytes in, and a check that no change was made outside.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::UnpackLimits;
use super::job::Reporter;
use super::unpack::{Layer, Style, Unpacker};

/// Unpacks the bytes as a layer (twice, over itself) and as a plain archive, and compares the files outside.
///
/// Panics if something outside of the destination was changed, or a special or privileged file was made.
pub fn fuzz_unpack(data: &[u8]) {
    let Ok(directory) = tempfile::tempdir() else { return };
    let canary = directory.path().join("canary");
    if prepare_canary(&canary).is_err() {
        return;
    }
    let before = fingerprint(&canary);
    for (name, style, times) in [("layer", Style::Layer, 2), ("plain", Style::Plain, 1)] {
        let destination = directory.path().join(name);
        if fs::create_dir(&destination).is_err() {
            return;
        }
        unpack(data, &destination, style, times);
        check_unpacked(&destination);
    }
    assert_eq!(before, fingerprint(&canary), "the canary was changed");
    let mut names: Vec<_> =
        fingerprint(directory.path()).into_keys().filter(|name| !name.contains('/')).collect();
    names.sort();
    assert_eq!(names, ["canary", "layer", "plain"], "something appeared beside the destination");
}

fn unpack(data: &[u8], destination: &Path, style: Style, times: usize) {
    let limits = UnpackLimits {
        entries: 200,
        bytes: 1 << 20,
        ratio: 100,
        ratio_floor: 256 << 10,
        entry_metadata_bytes: 64 << 10,
        ..UnpackLimits::default()
    };
    Reporter::silent(|reporter| {
        let Ok(mut unpacker) = Unpacker::new(destination, style, &limits) else { return };
        for _ in 0..times {
            let Ok(mut file) = tempfile::tempfile() else { return };
            if file.write_all(data).and_then(|()| std::io::Seek::rewind(&mut file)).is_err() {
                return;
            }
            let _ = unpacker.apply(Layer { file, digest: None, size: None, diff_id: None }, reporter);
        }
        unpacker.finish();
    });
}

fn prepare_canary(canary: &Path) -> std::io::Result<()> {
    fs::create_dir(canary)?;
    fs::write(canary.join("secret"), "untouched")?;
    fs::set_permissions(canary.join("secret"), fs::Permissions::from_mode(0o640))?;
    symlink("secret", canary.join("link"))
}

/// Everything below a directory: mode, owner, size, links and time of each file.
fn fingerprint(directory: &Path) -> BTreeMap<String, (u32, u32, u64, u64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
            let name = entry.path().strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
            let size = if metadata.is_dir() { 0 } else { metadata.len() };
            let print = (metadata.mode(), metadata.uid(), size, metadata.nlink(), metadata.mtime());
            found.insert(name, print);
        }
    }
    found
}

fn check_unpacked(destination: &Path) {
    for (name, (mode, ..)) in fingerprint(destination) {
        let kind = mode & 0o170_000;
        assert!([0o100_000, 0o040_000, 0o120_000].contains(&kind), "a special file was made: {name:?}");
        assert_eq!(mode & 0o6000, 0, "a privileged file was made: {name:?}");
    }
}

#[cfg(test)]
mod tests;
