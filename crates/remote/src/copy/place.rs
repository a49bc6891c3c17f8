use super::CopyError;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Inside {
        id: String,
        path: String,
    },
    Local(PathBuf),
    /// Standard input or output.
    Standard,
}

impl Place {
    /// `ID:PATH` is inside; a path with a slash before its first colon is not, so that `./a:b` can be named.
    pub fn parse(argument: &Path) -> Result<Place, CopyError> {
        if argument == Path::new("-") {
            return Ok(Place::Standard);
        }
        let bytes = argument.as_os_str().as_encoded_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|colon| *colon > 0 && !bytes[..*colon].contains(&b'/')) else {
            return Ok(Place::Local(argument.to_path_buf()));
        };
        let text = argument.to_str().ok_or(CopyError::NotText)?;
        let (id, path) = (&text[..colon], &text[colon + 1..]);
        if path.is_empty() {
            return Err(CopyError::NoPath(text.to_string()));
        }
        Ok(Place::Inside { id: id.to_string(), path: path.to_string() })
    }
}

/// The last part of a path inside, as the caller typed it; empty for the root and for `.`.
pub fn base_name(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some("." | "..") | None => "",
        Some(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_tells_inside_from_here() {
        let parse = |text: &str| Place::parse(Path::new(text)).unwrap();
        let inside = |id: &str, path: &str| Place::Inside { id: id.into(), path: path.into() };
        assert_eq!(parse("box:/a:b"), inside("box", "/a:b"));
        assert_eq!(parse("box:rel/x"), inside("box", "rel/x"));
        assert_eq!(parse("./box:/a"), Place::Local("./box:/a".into()));
        assert_eq!(parse(":x"), Place::Local(":x".into()));
        assert_eq!(parse("-"), Place::Standard);
        assert!(matches!(Place::parse(Path::new("box:")), Err(CopyError::NoPath(_))));
    }

    #[test]
    fn the_last_part_is_never_a_way_up() {
        for (path, name) in [("/a/b", "b"), ("/a/b//", "b"), ("/", ""), ("..", ""), ("a/..", ""), ("x", "x")]
        {
            assert_eq!(base_name(path), name, "{path}");
        }
    }
}
