//! Two listings of a place compared: by the kernel's facts about each entry, not by contents.

use super::listing::{Listing, Seen};
use paddock_model::api::{ChangeKind, FileKind};
use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// Relative to the workspace; absolute for other writable places.
    pub path: String,
    pub is: FileKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<u64>,
    /// The reason why a tool of the host may run code because of it, merely by being used there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_code: Option<&'static str>,
    /// The exact path, relative to its place.
    #[serde(skip)]
    pub raw: Vec<u8>,
    #[serde(skip)]
    pub before: Option<Seen>,
    #[serde(skip)]
    pub after: Option<Seen>,
}

/// `start_ns`: when the command was let in. Its times tell a change since then that was made before the first listing
/// came there.
pub fn compare(before: &Listing, after: &Listing, start_ns: i64, prefix: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    for (path, now) in &after.entries {
        let was = before.entries.get(path);
        if let Some(kind) = kind_of(was, now, before.complete, start_ns) {
            changes.push(change(kind, prefix, path, was.filter(|_| kind != ChangeKind::Added), Some(now)));
        }
    }
    // Without all of the second listing, a file that is missing from it may still be there.
    if after.complete && after.unreadable <= before.unreadable {
        let gone = before.entries.iter().filter(|(path, _)| !after.entries.contains_key(*path));
        changes.extend(gone.map(|(path, was)| change(ChangeKind::Deleted, prefix, path, Some(was), None)));
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

fn kind_of(was: Option<&Seen>, now: &Seen, complete: bool, start_ns: i64) -> Option<ChangeKind> {
    let by_times = || match () {
        () if now.born_ns > start_ns => Some(ChangeKind::Added),
        () if now.changed_ns > start_ns && now.kind != FileKind::Directory => Some(ChangeKind::Modified),
        () => None,
    };
    match was {
        // The entry was listed when the agent had changed it already.
        Some(was) if was.changed_ns > start_ns => by_times(),
        Some(was) if was.kind != now.kind => Some(ChangeKind::Modified),
        // A directory changes with every entry; the change is told of the entries.
        Some(_) if now.kind == FileKind::Directory => None,
        Some(was) if was.changed_ns == now.changed_ns && was.inode == now.inode && was.size == now.size => {
            None
        }
        Some(_) => Some(ChangeKind::Modified),
        None if complete => Some(ChangeKind::Added),
        None => by_times(),
    }
}

fn change(kind: ChangeKind, prefix: &str, path: &[u8], was: Option<&Seen>, now: Option<&Seen>) -> Change {
    let bytes = |seen: Option<&Seen>| seen.filter(|seen| seen.kind == FileKind::File).map(|seen| seen.size);
    Change {
        kind,
        path: format!("{prefix}{}", String::from_utf8_lossy(path)),
        is: now.or(was).map_or(FileKind::Other, |seen| seen.kind),
        before_bytes: bytes(was),
        after_bytes: bytes(now),
        runs_code: None,
        raw: path.to_vec(),
        before: was.cloned(),
        after: now.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: FileKind, changed_ns: i64, born_ns: i64) -> Seen {
        Seen { kind, mode: 0o644, size: 1, inode: 7, changed_ns, born_ns, kept: None }
    }

    fn listing(complete: bool, entries: &[(&str, Seen)]) -> Listing {
        let entries = entries.iter().map(|(path, seen)| (path.as_bytes().to_vec(), seen.clone())).collect();
        Listing { entries, complete, unreadable: 0 }
    }

    fn told(before: &Listing, after: &Listing) -> Vec<(ChangeKind, String)> {
        compare(before, after, 100, "").into_iter().map(|change| (change.kind, change.path)).collect()
    }

    #[test]
    fn added_modified_deleted() {
        let file = |changed| seen(FileKind::File, changed, 1);
        let directory = |changed| seen(FileKind::Directory, changed, 1);
        let before =
            listing(true, &[("d", directory(1)), ("same", file(1)), ("mod", file(1)), ("gone", file(1))]);
        let after = listing(
            true,
            &[("d", directory(200)), ("same", file(1)), ("mod", file(200)), ("new", file(200))],
        );
        let expected = [
            (ChangeKind::Deleted, "gone".to_string()),
            (ChangeKind::Modified, "mod".into()),
            (ChangeKind::Added, "new".into()),
        ];
        assert_eq!(told(&before, &after), expected);
    }

    #[test]
    fn a_file_that_was_put_in_the_place_of_another_is_modified() {
        let before = listing(true, &[("f", seen(FileKind::File, 1, 1))]);
        let after = listing(true, &[("f", Seen { inode: 8, ..seen(FileKind::File, 1, 1) })]);
        assert_eq!(told(&before, &after), [(ChangeKind::Modified, "f".to_string())]);
        let after = listing(true, &[("f", seen(FileKind::Link, 1, 1))]);
        assert_eq!(told(&before, &after), [(ChangeKind::Modified, "f".to_string())]);
    }

    #[test]
    fn where_the_agent_was_quicker_than_the_listing_times_tell() {
        let late =
            listing(true, &[("new", seen(FileKind::File, 150, 150)), ("old", seen(FileKind::File, 150, 1))]);
        let after =
            listing(true, &[("new", seen(FileKind::File, 150, 150)), ("old", seen(FileKind::File, 150, 1))]);
        let expected = [(ChangeKind::Added, "new".to_string()), (ChangeKind::Modified, "old".into())];
        assert_eq!(told(&late, &after), expected);
        let cut = listing(false, &[]);
        assert_eq!(told(&cut, &after), expected);
        let untouched = listing(true, &[("old", seen(FileKind::File, 50, 1))]);
        assert_eq!(told(&cut, &untouched), []);
    }

    #[test]
    fn half_a_listing_says_of_nothing_that_it_is_gone() {
        let before = listing(true, &[("f", seen(FileKind::File, 1, 1))]);
        assert_eq!(told(&before, &listing(false, &[])), []);
    }
}
