//! Packs that were fetched before, in a directory with a bound. Nothing here is trusted: chunks are verified after it.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub struct Cache {
    directory: PathBuf,
    most_bytes: u64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    packs: HashMap<String, (u64, u64)>,
    bytes: u64,
    /// Counts uses; the least is the longest ago.
    clock: u64,
}

impl Cache {
    pub fn open(directory: &Path, most_bytes: u64) -> std::io::Result<Cache> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut found: Vec<_> = std::fs::read_dir(directory)?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let metadata = entry.metadata().ok()?;
                let name = entry.file_name().into_string().ok()?;
                metadata.is_file().then(|| (metadata.modified().ok(), name, metadata.len()))
            })
            .collect();
        found.sort();
        let cache = Cache { directory: directory.into(), most_bytes, held: Mutex::default() };
        let mut held = cache.held();
        for (_, name, bytes) in found {
            held.clock += 1;
            let at = held.clock;
            held.bytes += bytes;
            held.packs.insert(name, (bytes, at));
        }
        cache.make_room(&mut held, 0);
        drop(held);
        Ok(cache)
    }

    pub fn get(&self, volume: &str, pack: &str) -> Option<Vec<u8>> {
        let name = file_name(volume, pack);
        {
            let mut held = self.held();
            held.clock += 1;
            let at = held.clock;
            held.packs.get_mut(&name)?.1 = at;
        }
        std::fs::read(self.directory.join(name)).ok()
    }

    /// A cache that cannot be written to is one that holds nothing.
    pub fn put(&self, volume: &str, pack: &str, bytes: &[u8]) {
        let (name, length) = (file_name(volume, pack), bytes.len() as u64);
        if length > self.most_bytes {
            return;
        }
        let mut held = self.held();
        if let Some((before, _)) = held.packs.remove(&name) {
            held.bytes -= before;
        }
        self.make_room(&mut held, length);
        let written = tempfile::NamedTempFile::new_in(&self.directory).and_then(|mut file| {
            file.write_all(bytes)?;
            file.persist(self.directory.join(&name)).map_err(|error| error.error)
        });
        if written.is_ok() {
            held.clock += 1;
            let at = held.clock;
            held.packs.insert(name, (length, at));
            held.bytes += length;
        }
    }

    /// Removes a pack that turned out to be damaged.
    pub fn drop_pack(&self, volume: &str, pack: &str) {
        let name = file_name(volume, pack);
        let mut held = self.held();
        if let Some((bytes, _)) = held.packs.remove(&name) {
            held.bytes -= bytes;
        }
        let _ = std::fs::remove_file(self.directory.join(name));
    }

    pub fn bytes(&self) -> u64 {
        self.held().bytes
    }

    fn make_room(&self, held: &mut Held, wanted: u64) {
        while held.bytes + wanted > self.most_bytes {
            let oldest = held.packs.iter().min_by_key(|(_, (_, at))| *at).map(|(name, _)| name.clone());
            let Some(name) = oldest else { return };
            if let Some((bytes, _)) = held.packs.remove(&name) {
                held.bytes -= bytes;
            }
            let _ = std::fs::remove_file(self.directory.join(name));
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(volume: &str, pack: &str) -> String {
    format!("{volume}.{pack}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound_and_lets_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), 100).unwrap();
        for pack in ["a", "b", "c"] {
            cache.put("v", pack, &[1; 30]);
        }
        assert!(cache.get("v", "a").is_some());
        cache.put("v", "d", &[1; 30]);
        assert!(cache.get("v", "b").is_none(), "the longest unused went");
        assert!(cache.get("v", "a").is_some() && cache.bytes() == 90);
        cache.put("v", "large", &[1; 101]);
        assert!(cache.get("v", "large").is_none() && cache.bytes() == 90);
        cache.put("v", "a", &[2; 20]);
        assert_eq!(cache.bytes(), 80);
        drop(cache);
        let again = Cache::open(directory.path(), 50).unwrap();
        assert!(again.bytes() <= 50);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), again.held().packs.len());
    }
}
