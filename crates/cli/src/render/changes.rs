//! What a sandbox changed, as a tree. A directory that only holds changes has no mark of its own.

use super::escape;
use super::style::Style;
use paddock_model::api::{Change, ChangeKind, FileKind, MergeConflict, MergeReport};
use std::collections::BTreeMap;

#[derive(Default)]
struct Node<'a> {
    change: Option<&'a Change>,
    children: BTreeMap<&'a str, Node<'a>>,
}

pub fn text(changes: &[Change], colour: bool) -> String {
    if changes.is_empty() {
        return "nothing was changed\n".to_string();
    }
    let mut root = Node::default();
    for change in changes {
        let parts = change.path.split('/').filter(|part| !part.is_empty());
        let node = parts.fold(&mut root, |node, part| node.children.entry(part).or_default());
        node.change = Some(change);
    }
    let mut text = format!("  {}\n", label("/", &root));
    below(&root, 1, colour, &mut text);
    text
}

fn below(node: &Node, depth: usize, colour: bool, text: &mut String) {
    for (name, child) in &node.children {
        text.push_str(&format!("{} {}{}\n", mark(child, colour), "  ".repeat(depth), label(name, child)));
        below(child, depth + 1, colour, text);
    }
}

fn mark(node: &Node, colour: bool) -> String {
    match node.change.map(|change| change.kind) {
        None => " ".to_string(),
        Some(ChangeKind::Added) => Style::Good.paint("+", colour),
        Some(ChangeKind::Modified) => Style::Warning.paint("~", colour),
        Some(ChangeKind::Deleted) => Style::Bad.paint("-", colour),
    }
}

fn label(name: &str, node: &Node) -> String {
    let name = escape::line(name);
    let entry = node.change.and_then(|change| change.entry.as_ref());
    match entry.map(|entry| entry.kind) {
        Some(FileKind::Directory) if name != "/" => format!("{name}/"),
        Some(FileKind::Link) => {
            let target = entry.and_then(|entry| entry.target.as_deref()).unwrap_or("?");
            format!("{name} -> {}", escape::line(target))
        }
        None if name != "/" && !node.children.is_empty() => format!("{name}/"),
        _ => name,
    }
}

pub fn merge(report: &MergeReport, colour: bool) -> String {
    let mut text = String::new();
    if report.conflicts.is_empty() {
        text.push_str(&format!("{} merged\n", count(report.merged.len(), "path")));
        for change in &report.merged {
            let node = Node { change: Some(change), children: BTreeMap::new() };
            text.push_str(&format!("{} {}\n", mark(&node, colour), escape::line(&change.path)));
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
            target: Some("to\u{7}".into()),
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
}
