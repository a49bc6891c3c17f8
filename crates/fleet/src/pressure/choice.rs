//! The choice of sandboxes to hibernate while memory is short: those whose owner allows it and that are not used, the
//! least recently used first, a few at a time.

use super::{AFTER_WAKING, LEAST_QUIET};
use paddock_model::api::UnderPressure;
use std::time::Duration;

/// Each writes its memory or files to the disk, which the others need too.
pub const AT_ONCE: usize = 4;

/// The state of a sandbox as the server knows it, without asking the kernel.
pub struct Seen<S> {
    pub sandbox: S,
    /// The time since it was last used.
    pub quiet: Duration,
    /// True if an exec or a call is under way, a stream is open, or its state is being changed.
    pub is_busy: bool,
    /// True if other sandboxes nest in its namespaces, so that it cannot sleep.
    pub is_held: bool,
    pub since_woken: Option<Duration>,
    pub consent: Consent,
}

/// The owner's consent to hibernation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    Given,
    /// Only while no process is in it, which only the kernel knows.
    WithoutProcesses,
    Withheld,
}

/// The facts that decide consent if the owner has set nothing.
pub struct Contents {
    pub is_persistent: bool,
    pub keeps_memory: bool,
    /// True if sleep would lose interpreters, or the files of mounts that are only in memory.
    pub would_lose: bool,
}

impl Consent {
    pub fn of(word: Option<UnderPressure>, contents: &Contents) -> Consent {
        match word {
            Some(UnderPressure::Hibernate) => Consent::Given,
            Some(UnderPressure::Keep) => Consent::Withheld,
            None if contents.is_persistent => Consent::Withheld,
            None if contents.keeps_memory => Consent::Given,
            None if contents.would_lose => Consent::Withheld,
            None => Consent::WithoutProcesses,
        }
    }
}

impl<S> Seen<S> {
    fn may_sleep(&self) -> bool {
        let was_just_woken = self.since_woken.is_some_and(|since| since < AFTER_WAKING);
        self.consent != Consent::Withheld
            && !self.is_busy
            && !self.is_held
            && !was_just_woken
            && self.quiet >= LEAST_QUIET
    }
}

/// The sandboxes that may sleep, in the order in which they are to.
pub fn in_order<S>(all: impl IntoIterator<Item = Seen<S>>) -> Vec<Seen<S>> {
    let mut may: Vec<Seen<S>> = all.into_iter().filter(Seen::may_sleep).collect();
    may.sort_by_key(|seen| std::cmp::Reverse(seen.quiet));
    may
}

/// The first of them, with the bytes that each holds, that together free the missing bytes; at least one, and at most
/// the number that can be hibernated at one time.
pub fn enough<S>(in_order: impl IntoIterator<Item = (S, u64)>, missing: u64) -> Vec<S> {
    let mut freed = 0_u64;
    let is_needed = |(_, bytes): &(S, u64)| {
        let needed = freed < missing.max(1);
        freed = freed.saturating_add(*bytes);
        needed
    };
    in_order.into_iter().take_while(is_needed).take(AT_ONCE).map(|(sandbox, _)| sandbox).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sandbox: &str, quiet: u64) -> Seen<&str> {
        Seen {
            sandbox,
            quiet: Duration::from_secs(quiet),
            is_busy: false,
            is_held: false,
            since_woken: None,
            consent: Consent::Given,
        }
    }

    fn names(all: impl IntoIterator<Item = Seen<&'static str>>) -> Vec<&'static str> {
        in_order(all).into_iter().map(|seen| seen.sandbox).collect()
    }

    #[test]
    fn the_least_recently_used_is_first() {
        assert_eq!(names([seen("b", 60), seen("c", 30), seen("a", 600)]), ["a", "b", "c"]);
    }

    #[test]
    fn what_is_used_unwilling_held_or_just_woken_is_left_alone() {
        let woken = |sandbox, since| Seen { since_woken: Some(since), ..seen(sandbox, 600) };
        let all = [
            Seen { is_busy: true, ..seen("busy", 600) },
            Seen { is_held: true, ..seen("has forks", 600) },
            Seen { consent: Consent::Withheld, ..seen("unwilling", 600) },
            Seen { consent: Consent::WithoutProcesses, ..seen("to be asked", 500) },
            woken("just woken", AFTER_WAKING - Duration::from_secs(1)),
            woken("woken before", AFTER_WAKING),
            seen("just used", LEAST_QUIET.as_secs() - 1),
        ];
        assert_eq!(names(all), ["woken before", "to be asked"]);
    }

    #[test]
    fn as_many_as_are_needed_and_no_more_than_a_few() {
        let all = || (0..10).map(|number| (number, 100));
        assert_eq!(enough(all(), 50), [0]);
        assert_eq!(enough(all(), 100), [0]);
        assert_eq!(enough(all(), 101), [0, 1]);
        assert_eq!(enough(all(), u64::MAX).len(), AT_ONCE);
        assert_eq!(enough(all(), 0), [0], "it is asked for only where something is missing");
        // The case that nothing counts the bytes of a sandbox.
        assert_eq!(enough((0..10).map(|number| (number, 0)), 1).len(), AT_ONCE);
        assert!(enough(std::iter::empty::<(u8, u64)>(), 100).is_empty());
    }

    #[test]
    fn the_owners_word_counts_and_without_one_nothing_may_be_lost() {
        let contents =
            |is_persistent, keeps_memory, would_lose| Contents { is_persistent, keeps_memory, would_lose };
        let plain = contents(false, false, false);
        assert_eq!(Consent::of(None, &plain), Consent::WithoutProcesses);
        assert_eq!(Consent::of(None, &contents(false, false, true)), Consent::Withheld);
        assert_eq!(Consent::of(None, &contents(false, true, true)), Consent::Given);
        assert_eq!(Consent::of(None, &contents(true, true, false)), Consent::Withheld);
        assert_eq!(Consent::of(Some(UnderPressure::Keep), &plain), Consent::Withheld);
        let would_lose = contents(true, false, true);
        assert_eq!(Consent::of(Some(UnderPressure::Hibernate), &would_lose), Consent::Given);
    }
}
