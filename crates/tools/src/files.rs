//! Files and directories as texts for a model, and edits of them. A line ends with a newline and nothing else.

use crate::arguments::BadCall;
use paddock_model::api::{FileEntry, FileKind};

/// A file larger than this is not for reading whole.
pub const LARGEST_FILE: usize = 8 << 20;
/// Places of a piece that are named.
const NAMED_LINES: usize = 10;

/// A piece of a text file, as many whole lines as fit.
pub fn of_file(
    content: &[u8],
    path: &str,
    start_line: usize,
    lines: Option<usize>,
    budget: usize,
) -> Result<String, BadCall> {
    let size = content.len();
    let text = std::str::from_utf8(content).map_err(|error| {
        BadCall(format!("{path} is no text: its byte {} is not UTF-8 ({size} bytes)", error.valid_up_to()))
    })?;
    if text.contains('\0') {
        return Err(BadCall(format!("{path} is no text: it has NUL bytes ({size} bytes)")));
    }
    if text.is_empty() {
        return Ok(format!("[{path} is empty]"));
    }
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let start = start_line.max(1);
    if start > all.len() {
        return Err(BadCall(format!("{path} has {} lines; line {start} is behind its end", all.len())));
    }
    let end = all.len().min((start - 1).saturating_add(lines.unwrap_or(usize::MAX)));
    let mut taken = String::new();
    let (mut last, mut room, mut cut) = (start - 1, budget, None);
    for line in &all[start - 1..end] {
        let length = line.chars().count();
        if length > room && last >= start {
            break;
        }
        last += 1;
        if length > budget {
            taken.extend(line.chars().take(budget));
            cut = Some(length);
            break;
        }
        taken.push_str(line);
        room = room.saturating_sub(length);
    }
    let mut notes = Vec::new();
    if let Some(length) = cut {
        notes.push(format!("[line {last} has {length} characters and is cut]"));
    }
    if last < all.len() {
        notes.push(format!(
            "[lines {start} to {last} of {}; read on with start_line={}]",
            all.len(),
            last + 1
        ));
    }
    match notes.is_empty() {
        true => Ok(taken),
        false => Ok(format!("{}\n{}", taken.trim_end_matches('\n'), notes.join("\n"))),
    }
}

/// The file with the piece replaced, and how often.
pub fn edited(
    content: &str,
    path: &str,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<(String, usize), BadCall> {
    if old.is_empty() {
        return Err(BadCall("old_text is empty; to write a whole file use write_file".into()));
    }
    if old == new {
        return Err(BadCall("old_text and new_text are the same".into()));
    }
    let count = content.matches(old).count();
    if count == 0 {
        return Err(BadCall(format!("old_text does not stand in {path}{}", nearly(content, old))));
    }
    if count > 1 && !replace_all {
        let lines: Vec<String> = content
            .match_indices(old)
            .take(NAMED_LINES)
            .map(|(at, _)| (content[..at].matches('\n').count() + 1).to_string())
            .collect();
        return Err(BadCall(format!(
            "old_text stands {count} times in {path} (lines {}): give more around it, or set replace_all",
            lines.join(", ")
        )));
    }
    Ok((content.replace(old, new), count))
}

/// The place of the text if white space did not count: the commonest mistake.
fn nearly(content: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.trim_matches('\n').split('\n').map(str::trim).collect();
    let have: Vec<&str> = content.split('\n').map(str::trim).collect();
    match have.windows(wanted.len()).position(|window| window == wanted) {
        Some(place) => {
            let line = place + 1;
            format!("; it nearly does at line {line}, with other white space: read those lines again")
        }
        None => "; read the file again, it may have changed".into(),
    }
}

pub fn of_entries(entries: &[FileEntry], path: &str, more: bool) -> String {
    if entries.is_empty() {
        return format!("[{path} is empty]");
    }
    let mut lines: Vec<String> = entries.iter().map(of_entry).collect();
    if more {
        let count = entries.len();
        lines.push(format!("[the first {count} entries; there are more: list a directory further down]"));
    }
    lines.join("\n")
}

fn of_entry(entry: &FileEntry) -> String {
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    let size = if entry.kind == FileKind::File { entry.size.to_string() } else { String::new() };
    let path = entry.path.strip_prefix("./").unwrap_or(&entry.path);
    let link = entry.target.as_deref().map(|target| format!(" -> {target}")).unwrap_or_default();
    format!("{kind:<9} {size:>10} {path}{link}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_pieces() {
        let content: String = (1..=100).map(|number| format!("{number}\n")).collect();
        let read = |start, lines, budget| of_file(content.as_bytes(), "f", start, lines, budget).unwrap();
        assert_eq!(of_file(b"a\nb", "f", 1, None, 1000).unwrap(), "a\nb");
        assert_eq!(of_file(b"", "f", 1, None, 1000).unwrap(), "[f is empty]");
        assert_eq!(read(10, Some(2), 1000), "10\n11\n[lines 10 to 11 of 100; read on with start_line=12]");
        assert!(read(1, None, 20).ends_with("read on with start_line=10]"));
        assert!(
            of_file(&[b'x'; 5000], "f", 1, None, 300).unwrap().contains("has 5000 characters and is cut")
        );
        assert_eq!(read(100, Some(usize::MAX), 1000), "100\n");
        for (bad, said) in [(&b"\xff\xfe"[..], "its byte 0 is not UTF-8"), (b"a\0b", "NUL")] {
            assert!(of_file(bad, "f", 1, None, 1000).unwrap_err().0.contains(said));
        }
        assert!(of_file(content.as_bytes(), "f", 101, None, 9).unwrap_err().0.contains("has 100 lines"));
    }

    #[test]
    fn edits() {
        assert_eq!(edited("a b a", "f", "b", "c", false).unwrap(), ("a c a".into(), 1));
        assert_eq!(edited("a b a", "f", "a", "c", true).unwrap(), ("c b c".into(), 2));
        for (old, new, said) in [
            ("a", "c", "stands 2 times in f (lines 1, 1)"),
            ("z", "c", "does not stand in f; read the file again"),
            ("", "c", "old_text is empty"),
            ("b", "b", "the same"),
        ] {
            assert!(edited("a b a", "f", old, new, false).unwrap_err().0.contains(said), "{said}");
        }
        let error = edited("def f():\n    return 1\n", "f", "\treturn 1", "x", false).unwrap_err();
        assert!(error.0.contains("nearly does at line 2, with other white space"), "{error}");
    }
}
