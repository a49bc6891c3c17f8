//! Manifests that writers had last: a writer that syncs every few seconds does not read ten thousand entries each time.

use crate::head::Version;
use crate::manifest::Manifest;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MOST: usize = 16;
/// Over all of them.
const MOST_ENTRIES: usize = 200_000;

#[derive(Default)]
pub struct Remembered(Mutex<VecDeque<(String, Arc<Manifest>)>>);

impl Remembered {
    /// Found by its hash, too: another manifest may have the same name.
    pub fn find(&self, volume: &str, version: &Version) -> Option<Arc<Manifest>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| *known == name(volume, version))?;
        let found = kept.remove(at)?;
        let manifest = found.1.clone();
        kept.push_front(found);
        Some(manifest)
    }

    pub fn keep(&self, volume: &str, version: &Version, manifest: &Arc<Manifest>) {
        let mut kept = self.kept();
        let name = name(volume, version);
        kept.retain(|(known, _)| *known != name);
        kept.push_front((name, manifest.clone()));
        let entries = |kept: &VecDeque<(String, Arc<Manifest>)>| -> usize {
            kept.iter().map(|(_, manifest)| manifest.entries.len()).sum()
        };
        while kept.len() > MOST || (entries(&kept) > MOST_ENTRIES && !kept.is_empty()) {
            kept.pop_back();
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(String, Arc<Manifest>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(volume: &str, version: &Version) -> String {
    format!("{volume}/{}/{}", version.manifest, version.manifest_hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Kind;

    fn version(number: u64) -> Version {
        Version {
            number,
            kind: Kind::Commit,
            at_ms: 0,
            by: String::new(),
            from: None,
            manifest: format!("{number}"),
            manifest_bytes: 0,
            manifest_hash: String::new(),
            files: 0,
            bytes: 0,
            stored_bytes: 0,
        }
    }

    #[test]
    fn the_last_ones_are_remembered_and_no_more() {
        let remembered = Remembered::default();
        let manifest = Arc::new(Manifest::empty());
        for number in 0..MOST as u64 {
            remembered.keep("one", &version(number), &manifest);
        }
        assert!(remembered.find("one", &version(0)).is_some());
        remembered.keep("one", &version(99), &manifest);
        assert!(remembered.find("one", &version(0)).is_some(), "it was asked for a moment ago");
        assert!(remembered.find("one", &version(1)).is_none());
        assert!(remembered.find("other", &version(0)).is_none());
        let damaged = Version { manifest_hash: "x".into(), ..version(0) };
        assert!(remembered.find("one", &damaged).is_none());
        let mut long = Manifest::empty();
        long.entries = vec![long.entries[0].clone(); MOST_ENTRIES + 1];
        remembered.keep("one", &version(100), &Arc::new(long));
        assert!(remembered.find("one", &version(100)).is_none(), "one that is too long is not kept");
    }
}
