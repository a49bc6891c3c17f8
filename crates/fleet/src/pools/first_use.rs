//! The first use of sandboxes of one kind. If that is Python code, an interpreter waits in the next ones, if they are
//! copies of a parent VM: its start takes an emulated VM longer than everything else.

use super::parent_vms::{Key, key_of};
use crate::Fleet;
use crate::live::Live;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most kinds that are remembered; the one unused for longest is forgotten.
const MOST_TEMPLATES: usize = 64;
/// The last four sandboxes of a kind count, one bit each; two of them make a habit.
const LAST: u8 = 0b1111;
const HABIT: u32 = 2;

/// The sandboxes of a kind that have begun with Python, the last one in the lowest bit.
#[derive(Default)]
pub struct FirstUse(Mutex<VecDeque<(Key, u8)>>);

impl FirstUse {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, u8)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, key: Key, python: bool) {
        let mut known = self.lock();
        let place = known.iter().position(|(one, _)| *one == key);
        let before = place.and_then(|at| known.remove(at)).map_or(0, |(_, began)| began);
        known.push_back((key, (before << 1 | u8::from(python)) & LAST));
        if known.len() > MOST_TEMPLATES {
            known.pop_front();
        }
    }

    pub fn is_python(&self, key: &Key) -> bool {
        self.lock().iter().any(|(one, began)| one == key && began.count_ones() >= HABIT)
    }
}

impl Fleet {
    /// Notes a use of this sandbox; only the first one counts.
    pub(crate) fn note_beginning(&self, live: &Live, python: bool) {
        if !live.begins() {
            return;
        }
        let record = live.record().clone();
        if let Some(key) = key_of(&record) {
            self.0.pools.first_use.note(key, python);
        }
        self.note_first_use(&record, python);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        number.to_le_bytes().into()
    }

    #[test]
    fn a_habit_is_two_of_the_last_four() {
        let first_use = FirstUse::default();
        let mut note = |python| {
            first_use.note(key(1), python);
            first_use.note(key(2), false);
            assert!(!first_use.is_python(&key(2)));
            first_use.is_python(&key(1))
        };
        let began = [true, false, true, false, true, true, false, false, false, true, true];
        let habit = [false, false, true, true, true, true, true, true, false, false, true];
        assert_eq!(began.map(&mut note), habit);
    }

    #[test]
    fn who_has_not_come_for_longest_is_forgotten() {
        let first_use = FirstUse::default();
        for number in (0..=MOST_TEMPLATES).chain(1..=MOST_TEMPLATES) {
            first_use.note(key(number), true);
        }
        assert!(!first_use.is_python(&key(0)) && first_use.is_python(&key(1)));
        assert_eq!(first_use.lock().len(), MOST_TEMPLATES);
    }
}
