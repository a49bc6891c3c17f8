//! Two states of a file as a patch that `patch -p1` and `git apply` take. Names and bytes may be hostile: no name can
//! forge a line of the patch.

use crate::disk::Held;
use paddock_model::api::FileKind;
use paddock_protocol::Content;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A patch is for people: larger files are only named in it.
pub const LARGEST_FILE: u64 = 256 * 1024;
pub const LARGEST_PATCH: usize = 8 << 20;
/// After this time, the rest of two files is shown as replaced: right, but longer than necessary.
const DIFF_TIME: Duration = Duration::from_millis(200);
/// Git's numbers of an empty file, and of no file.
const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const NOTHING: &str = "0000000000000000000000000000000000000000";
/// The lines around a change.
const CONTEXT: usize = 3;

impl Held {
    /// A file or a link that was read whole.
    pub fn of(kind: FileKind, mode: u32, bytes: Vec<u8>) -> Held {
        let content = match kind {
            FileKind::File if bytes.contains(&0) => Content::Binary,
            FileKind::File | FileKind::Link => Content::Given,
            _ => Content::None,
        };
        Held { kind, mode, content, bytes }
    }

    /// A file that is larger than [`LARGEST_FILE`].
    pub fn too_large(mode: u32) -> Held {
        Held { kind: FileKind::File, mode, content: Content::TooLarge, bytes: Vec::new() }
    }
}

/// Cuts a patch to [`LARGEST_PATCH`]; only whole files go, because half a hunk would make the rest useless.
pub fn cut(patch: &mut String) {
    let at = patch.floor_char_boundary(LARGEST_PATCH);
    patch.truncate(patch[..at].rfind("\ndiff --git ").map_or(0, |at| at + 1));
    patch.push_str("# the rest is left out: the patch is too large\n");
}

/// One file's part of the patch; the error says in words why it cannot be shown.
pub fn file(path: &str, old: Option<&Held>, new: Option<&Held>) -> Result<String, &'static str> {
    if let (Some(before), Some(after)) = (old, new)
        && (before.kind != after.kind || (before.kind == FileKind::Link && before.bytes != after.bytes))
    {
        // A changed link is removed and made anew as well: `patch` changes no link.
        return Ok(file(path, old, None)? + &file(path, None, new)?);
    }
    for held in [old, new].into_iter().flatten() {
        match held.content {
            Content::Given => {}
            Content::None => return Err("it is no file"),
            Content::TooLarge => return Err("it is too large for a patch"),
            Content::Binary => return Ok(differ(path, old, new)),
        }
    }
    let text =
        |held: Option<&Held>| held.map_or(Ok(String::new()), |held| String::from_utf8(held.bytes.clone()));
    let (Ok(before), Ok(after)) = (text(old), text(new)) else { return Ok(differ(path, old, new)) };
    let mut patch = format!("diff --git {} {}\n", quoted("a", path), quoted("b", path));
    let _ = match (old.map(mode), new.map(mode)) {
        (None, None) => return Err("it has gone meanwhile"),
        (None, Some(mode)) => writeln!(patch, "new file mode {mode}"),
        (Some(mode), None) => writeln!(patch, "deleted file mode {mode}"),
        (Some(before), Some(after)) if before != after => {
            writeln!(patch, "old mode {before}\nnew mode {after}")
        }
        _ if before == after => return Ok(String::new()),
        _ => Ok(()),
    };
    // Without a hunk, `patch` takes a file as empty only by its number.
    let _ = match (old, new) {
        (Some(_), None) if before.is_empty() => writeln!(patch, "index {EMPTY}..{NOTHING}"),
        (None, Some(_)) if after.is_empty() => writeln!(patch, "index {NOTHING}..{EMPTY}"),
        _ => Ok(()),
    };
    if before != after {
        let name = |held: Option<&Held>, side: &str| match held {
            Some(_) => match quoted(side, path) {
                // A tab ends a name with spaces in it, unless quotes do.
                name if path.contains(' ') && !name.starts_with('"') => name + "\t",
                name => name,
            },
            None => "/dev/null".into(),
        };
        let _ = write!(patch, "--- {}\n+++ {}\n", name(old, "a"), name(new, "b"));
        hunks(&before, &after, &mut patch);
    }
    Ok(patch)
}

/// The line is a comment: a program that applies the patch could do nothing with it, and would stop.
fn differ(path: &str, old: Option<&Held>, new: Option<&Held>) -> String {
    let side = |held: Option<&Held>, side| held.map_or("/dev/null".into(), |_| quoted(side, path));
    format!("# Binary files {} and {} differ\n", side(old, "a"), side(new, "b"))
}

fn hunks(before: &str, after: &str, patch: &mut String) {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let until = Some(Instant::now() + DIFF_TIME);
    let all = similar::capture_diff_slices_deadline(similar::Algorithm::Myers, &old, &new, until);
    for group in similar::group_diff_ops(all, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |from: usize, to: usize| {
            // An empty range is named by the line before it.
            let start = if to > from { from + 1 } else { from };
            format!("{start},{}", to - from)
        };
        let removed = range(first.old_range().start, last.old_range().end);
        let added = range(first.new_range().start, last.new_range().end);
        let _ = writeln!(patch, "@@ -{removed} +{added} @@");
        for operation in group {
            let same = operation.tag() == similar::DiffTag::Equal;
            for line in &old[operation.old_range()] {
                put(if same { ' ' } else { '-' }, line, patch);
            }
            for line in new[operation.new_range()].iter().filter(|_| !same) {
                put('+', line, patch);
            }
        }
    }
}

fn put(sign: char, line: &str, patch: &mut String) {
    patch.push(sign);
    patch.push_str(line);
    if !line.ends_with('\n') {
        patch.push_str("\n\\ No newline at end of file\n");
    }
}

/// The three modes that git knows.
fn mode(held: &Held) -> &'static str {
    match held.kind {
        FileKind::Link => "120000",
        _ if held.mode & 0o100 != 0 => "100755",
        _ => "100644",
    }
}

/// The name in git's form: in quotes if it would be misread.
pub fn quoted(side: &str, path: &str) -> String {
    if !path.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        return format!("{side}{path}");
    }
    let mut name = format!("\"{side}");
    for byte in path.bytes() {
        let _ = match byte {
            b'"' | b'\\' => write!(name, "\\{}", byte as char),
            0x20..0x7f => write!(name, "{}", byte as char),
            _ => write!(name, "\\{byte:03o}"),
        };
    }
    name + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> Held {
        held(FileKind::File, content.as_bytes(), Content::Given)
    }

    fn held(kind: FileKind, bytes: &[u8], content: Content) -> Held {
        Held { kind, mode: 0o644, content, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_changed_line_is_shown_between_its_neighbours() {
        let old = text("1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        let new = text("1\n2\n3\n4\nfive\n6\n7\n8\n9");
        let patch = file("/tmp/f", Some(&old), Some(&new)).unwrap();
        assert_eq!(
            patch,
            "diff --git a/tmp/f b/tmp/f\n--- a/tmp/f\n+++ b/tmp/f\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n\
             +9\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn a_carriage_return_ends_no_line() {
        let patch = file("/f", Some(&text("a\rb\r\n")), Some(&text("a\rc\r\n"))).unwrap();
        assert!(patch.ends_with("@@ -1,1 +1,1 @@\n-a\rb\r\n+a\rc\r\n"), "{patch:?}");
    }

    #[test]
    fn new_and_deleted_files_say_so() {
        let patch = file("/f", None, Some(&text("x\n"))).unwrap();
        assert_eq!(
            patch,
            "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+x\n"
        );
        let patch = file("/f", Some(&text("x\n")), None).unwrap();
        assert!(patch.contains("deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"));
        let patch = file("/f", None, Some(&text(""))).unwrap();
        assert_eq!(patch, format!("diff --git a/f b/f\nnew file mode 100644\nindex {NOTHING}..{EMPTY}\n"));
    }

    #[test]
    fn what_is_no_text_is_named() {
        let binary = held(FileKind::File, b"", Content::Binary);
        let large = held(FileKind::File, b"", Content::TooLarge);
        let patch = file("/f", Some(&text("x")), Some(&binary)).unwrap();
        assert_eq!(patch, "# Binary files a/f and b/f differ\n");
        assert!(file("/f", None, Some(&large)).unwrap_err().contains("too large"));
        let latin = held(FileKind::File, b"\xe9\n", Content::Given);
        assert!(file("/f", None, Some(&latin)).unwrap().starts_with("# Binary files /dev/null and b/f"));
    }

    #[test]
    fn a_file_that_became_a_link_is_deleted_and_made() {
        let link = held(FileKind::Link, b"/etc/passwd", Content::Given);
        let patch = file("/f", Some(&text("x\n")), Some(&link)).unwrap();
        assert!(
            patch.contains("deleted file mode 100644") && patch.contains("new file mode 120000"),
            "{patch}"
        );
        assert!(patch.ends_with("+/etc/passwd\n\\ No newline at end of file\n"));
    }

    #[test]
    fn modes_and_the_same_bytes_again() {
        let executable = Held { mode: 0o755, ..text("x\n") };
        let patch = file("/f", Some(&text("x\n")), Some(&executable)).unwrap();
        assert_eq!(patch, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n");
        assert_eq!(file("/f", Some(&text("x\n")), Some(&text("x\n"))).unwrap(), "");
    }

    #[test]
    fn names_cannot_forge_a_patch() {
        let patch = file("/a\n+++ b/etc/passwd", None, Some(&text("x\n"))).unwrap();
        assert!(patch.contains("+++ \"b/a\\012+++ b/etc/passwd\"\n"), "{patch}");
        assert!(!patch.contains("\n+++ b/etc"));
        assert!(file("/a b", None, Some(&text("x\n"))).unwrap().contains("+++ b/a b\t\n"));
    }
}
