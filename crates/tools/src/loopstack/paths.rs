//! Paths of a caller's, as Loopstack takes them: relative ones begin at the root.

use super::{LoopstackError, Result, short};

/// The path of a file: absolute, without `.` and `..`. A path that would climb above the root is refused.
pub fn inside(path: &str) -> Result<String> {
    let parts = normalised(path).ok_or_else(|| LoopstackError::Traversal(short(path)))?;
    Ok(format!("/{}", parts.join("/")))
}

/// The path of a working directory: Loopstack refuses two dots anywhere in it, even in a name.
pub fn working_directory(path: &str) -> Result<String> {
    let inside = inside(path)?;
    if inside.contains("..") { Err(LoopstackError::Traversal(short(path))) } else { Ok(inside) }
}

fn normalised(path: &str) -> Option<Vec<&str>> {
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_climbs_above_the_root() {
        for (given, meant) in [("/a/../b", "/b"), ("a/./b//", "/a/b"), ("/", "/"), ("/x..y", "/x..y")] {
            assert_eq!(inside(given).unwrap(), meant);
        }
        for bad in ["../x", "/..", "a/../../b", "", "a\0b"] {
            let message = inside(bad).unwrap_err().to_string();
            assert!(message.starts_with("Path traversal detected: "), "{message}");
        }
        assert_eq!(working_directory("/a/../b").unwrap(), "/b");
        assert!(working_directory("/x..y").is_err());
    }
}
