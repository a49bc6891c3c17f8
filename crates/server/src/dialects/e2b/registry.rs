//! The processes that were started through this dialect: what the API of execs does not keep of them.

use super::messages::{ProcessConfig, Selector};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By their sandbox, and then by the number of their exec. One leaves when it ends, and a sandbox with its last.
#[derive(Default)]
pub struct Processes(Mutex<HashMap<String, BTreeMap<u32, Started>>>);

#[derive(Debug, Clone)]
pub struct Started {
    pub config: ProcessConfig,
    pub tag: Option<String>,
    /// Its output is a terminal's.
    pub terminal: bool,
}

impl Processes {
    pub fn add(&self, sandbox: &str, exec: u32, started: Started) {
        self.lock().entry(sandbox.to_string()).or_default().insert(exec, started);
    }

    pub fn remove(&self, sandbox: &str, exec: u32) {
        let mut all = self.lock();
        if let Some(own) = all.get_mut(sandbox) {
            own.remove(&exec);
            if own.is_empty() {
                all.remove(sandbox);
            }
        }
    }

    pub fn get(&self, sandbox: &str, exec: u32) -> Option<Started> {
        self.lock().get(sandbox)?.get(&exec).cloned()
    }

    /// The exec that a client means; the newest of those with a tag.
    pub fn find(&self, sandbox: &str, selector: &Selector) -> Option<u32> {
        let Some(tag) = &selector.tag else { return selector.pid };
        let all = self.lock();
        let mut newest_first = all.get(sandbox)?.iter().rev();
        newest_first.find(|(_, started)| started.tag.as_ref() == Some(tag)).map(|(exec, _)| *exec)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<u32, Started>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_number_or_tag_in_its_own_sandbox() {
        let all = Processes::default();
        let tagged =
            |tag: &str| Started { config: ProcessConfig::default(), tag: Some(tag.into()), terminal: false };
        all.add("a", 1, tagged("x"));
        all.add("a", 2, tagged("x"));
        all.add("b", 3, tagged("x"));
        let by_tag = Selector { pid: None, tag: Some("x".into()) };
        assert_eq!(all.find("a", &by_tag), Some(2));
        all.remove("a", 2);
        assert_eq!(all.find("a", &by_tag), Some(1));
        assert_eq!(all.find("c", &by_tag), None);
        assert_eq!(all.find("a", &Selector { pid: Some(9), tag: None }), Some(9));
        assert_eq!(all.find("a", &Selector::default()), None);
        all.remove("a", 1);
        all.remove("b", 3);
        assert!(all.lock().is_empty(), "a sandbox leaves with its last process");
    }
}
