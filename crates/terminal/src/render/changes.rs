//! The changes of a sandbox, as a tree. A directory that only holds changes has no mark of its own.

use super::escape;
use super::style::Style;
use paddock_model::api::{Change, ChangeKind, FileKind, MergeConflict, MergeReport};
use std::cmp::Ordering;

/// Deeper lines are not moved further to the right: they say how deep they are.
const DEEPEST_INDENT: usize = 64;

/// One line each, in the order of the tree. No tree is built of them: directories inside may be deeper than a stack.
pub fn text(changes: &[Change], colour: bool) -> String {
    if changes.is_empty() {
        return "nothing was changed\n".to_string();
    }
    let mut sorted: Vec<&Change> = changes.iter().collect();
    sorted.sort_by(|a, b| in_tree_order(&a.path, &b.path));
    let root = sorted.iter().find(|change| change.path == "/");
    let mut text = format!("  {}\n", label("/", root.copied(), true));
    let mut before = "";
    for (index, change) in sorted.iter().enumerate().filter(|(_, change)| change.path != "/") {
        // Directories on the way that hold changes, and are none.
        let shared = shared_directories(before, &change.path);
        let mut depth = 1 + before[..shared].matches('/').count();
        let mut rest = change.path[shared..].trim_start_matches('/');
        while let Some((name, below)) = rest.split_once('/') {
            line(&mut text, " ", depth, &label(name, None, true));
            (rest, depth) = (below, depth + 1);
        }
        let has_children = sorted.get(index + 1).is_some_and(|next| is_below(&next.path, &change.path));
        line(&mut text, &mark(Some(change), colour), depth, &label(rest, Some(change), has_children));
        before = &change.path;
    }
    text
}

fn line(text: &mut String, mark: &str, depth: usize, label: &str) {
    let indent = "  ".repeat(depth.min(DEEPEST_INDENT));
    let deep = if depth > DEEPEST_INDENT { format!("[{depth}] ") } else { String::new() };
    text.push_str(&format!("{mark} {indent}{deep}{label}\n"));
}

/// A directory comes before its entries, and these before its neighbours.
fn in_tree_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let rank =
        |byte: Option<&u8>| byte.map_or(0, |byte| if *byte == b'/' { 1 } else { u16::from(*byte) + 1 });
    rank(a.get(same)).cmp(&rank(b.get(same)))
}

/// How much of the path before leads to directories that the path leads through as well.
fn shared_directories(before: &str, path: &str) -> usize {
    if is_below(path, before) {
        return before.len();
    }
    let same = before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
    before.as_bytes()[..same].iter().rposition(|byte| *byte == b'/').unwrap_or(0)
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

fn mark(change: Option<&Change>, colour: bool) -> String {
    match change.map(|change| change.kind) {
        None => " ".to_string(),
        Some(ChangeKind::Added) => Style::Good.paint("+", colour),
        Some(ChangeKind::Modified) => Style::Warning.paint("~", colour),
        Some(ChangeKind::Deleted) => Style::Bad.paint("-", colour),
    }
}

fn label(name: &str, change: Option<&Change>, has_children: bool) -> String {
    let name = escape::line(name);
    let entry = change.and_then(|change| change.entry.as_ref());
    match entry.map(|entry| entry.kind) {
        Some(FileKind::Directory) if name != "/" => format!("{name}/"),
        Some(FileKind::Link) => {
            let target = entry.and_then(|entry| entry.target.as_deref()).unwrap_or("?");
            format!("{name} -> {}", escape::line(target))
        }
        None if name != "/" && has_children => format!("{name}/"),
        _ => name,
    }
}

pub fn merge(report: &MergeReport, colour: bool) -> String {
    let mut text = String::new();
    if report.conflicts.is_empty() {
        text.push_str(&format!("{} merged\n", count(report.merged.len(), "path")));
        for change in &report.merged {
            text.push_str(&format!("{} {}\n", mark(Some(change), colour), escape::line(&change.path)));
        }
        if !report.skipped.is_empty() {
            text.push_str(&format!("{} left out\n", count(report.skipped.len(), "path")));
            reasons(&mut text, &report.skipped, colour);
        }
        return text;
    }
    text.push_str(&format!("nothing was merged: {}\n", count(report.conflicts.len(), "conflict")));
    reasons(&mut text, &report.conflicts, colour);
    text
}

fn reasons(text: &mut String, paths: &[MergeConflict], colour: bool) {
    for MergeConflict { path, reason } in paths {
        let sign = Style::Bad.paint("!", colour);
        text.push_str(&format!("{sign} {}: {}\n", escape::line(path), escape::line(reason)));
    }
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::FileEntry;

    fn change(kind: ChangeKind, path: &str, entry: Option<FileKind>) -> Change {
        let entry = entry.map(|kind| FileEntry {
            path: path.into(),
            path_base64: None,
            kind,
            size: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            modified_at_ms: 0,
            attributes: Default::default(),
            target: Some("to\u{7}".into()),
            resolved: None,
        });
        Change { kind, path: path.into(), entry }
    }

    #[test]
    fn changes_are_shown_below_the_directories_that_hold_them() {
        let changes = [
            change(ChangeKind::Added, "/a/new", Some(FileKind::Directory)),
            change(ChangeKind::Added, "/a/new/x\u{1b}", Some(FileKind::File)),
            change(ChangeKind::Modified, "/a/old", Some(FileKind::Link)),
            change(ChangeKind::Deleted, "/b", None),
        ];
        let expected = "  /\n    a/\n+     new/\n+       x\\u{1b}\n~     old -> to\\u{7}\n-   b\n";
        assert_eq!(text(&changes, false), expected);
        assert_eq!(text(&[], false), "nothing was changed\n");
    }

    #[test]
    fn neighbours_and_deep_trees_come_in_the_order_of_the_tree() {
        let changes = [
            change(ChangeKind::Deleted, "/a", None),
            change(ChangeKind::Deleted, "/a-b", None),
            change(ChangeKind::Deleted, "/a/c", None),
            change(ChangeKind::Added, "/x/y/z", Some(FileKind::File)),
            change(ChangeKind::Added, "/x/yy", Some(FileKind::File)),
        ];
        let expected = "  /\n-   a/\n-     c\n-   a-b\n    x/\n      y/\n+       z\n+     yy\n";
        assert_eq!(text(&changes, false), expected);
        // Deeper than any stack is: it ends, and its lines do not get longer and longer.
        let deep = format!("/{}", vec!["d"; 200_000].join("/"));
        let shown = text(&[change(ChangeKind::Added, &deep, Some(FileKind::Directory))], false);
        assert_eq!(shown.lines().count(), 200_001);
        assert!(shown.lines().all(|line| line.len() < 200) && shown.ends_with("[200000] d/\n"));
    }
}
