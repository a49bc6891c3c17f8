//! Names of volumes, and where they may stand inside: the rules of Windmill's annotations.

use crate::VolumeError;
use std::path::{Component, Path, PathBuf};

/// Absolute targets lie below one of these.
const PLACES: [&str; 6] = ["/tmp", "/mnt", "/opt", "/home", "/data", "/workspace"];
const LONGEST_TARGET: usize = 1024;

pub fn check_name(name: &str) -> Result<(), VolumeError> {
    let bytes = name.as_bytes();
    let known = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let ends = [bytes.first(), bytes.last()].iter().all(|b| b.is_some_and(u8::is_ascii_alphanumeric));
    if (2..=255).contains(&bytes.len()) && ends && bytes.iter().all(known) && !name.contains("..") {
        return Ok(());
    }
    Err(VolumeError::Name(name.chars().take(80).collect()))
}

/// Where it stands inside; a relative target stands below `/workspace`.
pub fn check_target(target: &str) -> Result<PathBuf, VolumeError> {
    let refuse =
        |problem| VolumeError::Target { path: target.chars().take(200).collect::<String>(), problem };
    if target.is_empty() {
        return Err(refuse("is empty"));
    }
    if target.len() > LONGEST_TARGET {
        return Err(refuse("is longer than 1024 bytes"));
    }
    if target.chars().any(char::is_control) {
        return Err(refuse("holds control characters"));
    }
    let path = Path::new(target);
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(refuse("holds `..`"));
    }
    let path: PathBuf = Path::new("/workspace").join(path).components().collect();
    let within = |place: &&str| path.starts_with(place) && path != Path::new(place);
    if !PLACES.iter().any(within) {
        return Err(refuse("is not below /data, /home, /mnt, /opt, /tmp or /workspace"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_windmill_takes_them() {
        let longest = "a".repeat(255);
        for good in ["ab", "A1", "my-volume.v2", "a_b", longest.as_str()] {
            check_name(good).unwrap();
        }
        let long = "a".repeat(256);
        for bad in ["", "a", "-ab", "ab-", "a..b", "a/b", "a b", "ä1", ".ab", "a\n", "../x", long.as_str()] {
            assert_eq!(check_name(bad).unwrap_err().code(), "invalid_request", "{bad}");
        }
    }

    #[test]
    fn a_target_does_not_escape() {
        assert_eq!(check_target("/data/x/").unwrap(), Path::new("/data/x"));
        assert_eq!(check_target(".claude").unwrap(), Path::new("/workspace/.claude"));
        assert_eq!(check_target("/tmp/./a b").unwrap(), Path::new("/tmp/a b"));
        for bad in [
            "",
            "/",
            ".",
            "..",
            "/data",
            "/etc",
            "/data/../etc",
            "a/../../b",
            "/usr/x",
            "/database/x",
            "/tmp/a\0",
        ] {
            check_target(bad).expect_err(bad);
        }
    }
}
