//! The files in the writable places before, and after. A thread makes the first listing beside the sandbox: a small
//! repository is listed when the command starts, a large one is not waited for.

use super::changes::{Change, compare};
use super::listing::{Listing, Place, list, now_ns};
use super::old_contents::OldContents;
use super::patch;
use crate::session::First;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time that a command waits for the list of names; and for the contents, if a patch was asked for.
const NAMES: Duration = Duration::from_millis(200);
const CONTENTS: Duration = Duration::from_secs(5);

/// Its settings are Paddock's own, so they are not among the changes.
const NEW_REPOSITORY: &str =
    "a repository was made inside; its commits and branches are in .git, its hooks and settings are not";

pub struct Watch {
    places: Vec<(Place, String)>,
    /// When the command was let in.
    started: Arc<OnceLock<i64>>,
    stop: Arc<AtomicBool>,
    lister: Option<JoinHandle<(Vec<Listing>, Option<OldContents>)>>,
}

/// The account of a run.
#[derive(Debug, Default)]
pub struct Account {
    pub changes: Vec<Change>,
    /// Where a patch was asked for.
    pub patch: Option<String>,
    /// Notes about changes that may be missing.
    pub notes: Vec<String>,
}

impl Watch {
    /// `places`, each with the prefix of its paths. `keep`: the directory for contents, if a patch is wanted.
    pub fn begin(places: Vec<(Place, String)>, keep: Option<&Path>) -> std::io::Result<(Watch, First)> {
        let mut old_contents = keep.map(OldContents::new).transpose()?;
        let at_most = if old_contents.is_some() { CONTENTS } else { NAMES };
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, done) = sync_channel::<()>(0);
        let (listed, stopped) = (places.clone(), stop.clone());
        let work = move || {
            let listings =
                listed.iter().map(|(place, _)| list(place, old_contents.as_mut(), &stopped)).collect();
            drop(sender);
            (listings, old_contents)
        };
        let lister = std::thread::Builder::new().name("paddock-lister".into()).spawn(work)?;
        let started = Arc::new(OnceLock::new());
        let moment = started.clone();
        let first = First(Box::new(move || {
            // Done or too late: the command starts either way.
            let _ = done.recv_timeout(at_most);
            let _ = moment.set(now_ns());
        }));
        Ok((Watch { places, started, stop, lister: Some(lister) }, first))
    }

    /// Precondition: the sandbox has ended.
    pub fn end(mut self) -> Account {
        // A listing that is not done by now would only hold up its reader.
        self.stop.store(true, Ordering::Relaxed);
        let mut account = Account::default();
        let Some(Ok((before, old_contents))) = self.lister.take().map(JoinHandle::join) else {
            account.notes.push("what was there before could not be listed: no change is told".into());
            return account;
        };
        let mut text = String::new();
        // A command that was never let in changed nothing.
        let start_ns = self.started.get().copied().unwrap_or(i64::MAX);
        for ((place, prefix), before) in self.places.iter().zip(&before) {
            let after = list(place, None, &AtomicBool::new(false));
            let mut changes = compare(before, &after, start_ns, prefix);
            changes.iter_mut().for_each(|change| change.runs_code = place.reason(&change.raw));
            if place.without_repository && after.entries.contains_key(&b".git/HEAD"[..]) {
                account.notes.push(NEW_REPOSITORY.into());
            }
            if let Some(old_contents) = &old_contents {
                text.push_str(&patch::of(&changes, place, old_contents));
            }
            account.notes.extend(notes(place, before, &after));
            account.changes.extend(changes);
        }
        account.patch = old_contents.map(|_| text);
        // Changes that can run code come first; the others are in the order of their paths.
        account.changes.sort_by_key(|change| change.runs_code.is_none());
        account
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn notes(place: &Place, before: &Listing, after: &Listing) -> Vec<String> {
    let name = place.directory.display();
    let mut notes = Vec::new();
    if !before.complete {
        notes.push(format!("{name} is large, and was not listed whole when the command was over: what was deleted may be missing here"));
    }
    if !after.complete {
        notes.push(format!("{name} has more entries than are compared: changes beyond a million of them, or 128 MiB of names, are missing here"));
    }
    if after.unreadable > before.unreadable {
        notes.push(format!(
            "{} directories in {name} cannot be read: what was deleted, and changes in them, are missing here",
            after.unreadable
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::ChangeKind;

    #[test]
    fn what_changed_between_is_told_and_shown() {
        let directory = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("kept"), "same\n").unwrap();
        std::fs::write(at("edited"), "one\ntwo\n").unwrap();
        std::fs::write(at("removed"), "gone\n").unwrap();
        let place = Place {
            directory: directory.path().to_path_buf(),
            skip: Vec::new(),
            marked: vec![("tools/hooks".into(), "git runs the hooks in it")],
            without_repository: false,
        };
        let (watch, first) = Watch::begin(vec![(place, String::new())], Some(state.path())).unwrap();
        (first.0)();
        // The kernel's clock for files moves every few milliseconds.
        std::thread::sleep(Duration::from_millis(30));
        std::fs::write(at("edited"), "one\n2\n").unwrap();
        std::fs::remove_file(at("removed")).unwrap();
        std::fs::create_dir(at("new")).unwrap();
        std::fs::write(at("new/file"), "x\n").unwrap();
        std::fs::create_dir_all(at("tools/hooks")).unwrap();
        std::fs::write(at("tools/hooks/pre-commit"), "x\n").unwrap();
        std::fs::create_dir_all(at("sub/.git/hooks")).unwrap();
        std::fs::write(at("sub/.git/config"), "x\n").unwrap();
        let account = watch.end();
        let marked: Vec<_> =
            account.changes.iter().take_while(|c| c.runs_code.is_some()).map(|c| c.path.as_str()).collect();
        let expected =
            ["sub/.git", "sub/.git/config", "sub/.git/hooks", "tools/hooks", "tools/hooks/pre-commit"];
        assert_eq!(marked, expected);
        let told: Vec<_> =
            account.changes.iter().skip(marked.len()).map(|c| (c.kind, c.path.as_str())).collect();
        let expected = [
            (ChangeKind::Modified, "edited"),
            (ChangeKind::Added, "new"),
            (ChangeKind::Added, "new/file"),
            (ChangeKind::Deleted, "removed"),
            (ChangeKind::Added, "sub"),
            (ChangeKind::Added, "tools"),
        ];
        assert_eq!(told, expected);
        assert!(account.notes.is_empty(), "{:?}", account.notes);
        let patch = account.patch.unwrap();
        assert!(patch.contains("# added") && !patch.contains("b/sub/.git/config"), "{patch}");
        for part in ["-two\n+2\n", "new file mode 100644\n--- /dev/null\n+++ b/new/file", "deleted file mode"]
        {
            assert!(patch.contains(part), "{part}: {patch}");
        }
    }
}
