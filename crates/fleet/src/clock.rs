//! Clocks. Times for people come from the wall clock. Lifetimes do not: an administrator may set that clock a day
//! forward or back. The boot clock cannot be set, and counts within one boot of the host.

use super::record::now_ms;
use paddock_records::store::Store;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::Duration;

/// Between two looks the wall clock and the boot clock differ by no more than this, unless the wall clock was set.
pub const JUMP_MS: u64 = 2_000;
const SETTING: &str = "clock";

/// An instant of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootInstant {
    boot: String,
    ms: u64,
}

impl BootInstant {
    pub fn after(time: Duration) -> BootInstant {
        BootInstant { boot: boot_id().into(), ms: boot_ms().saturating_add(time.as_millis() as u64) }
    }

    /// The time until then; `None` if it is of another boot, whose clock cannot be read any more.
    pub fn left(&self) -> Option<Duration> {
        (self.boot == boot_id()).then(|| Duration::from_millis(self.ms.saturating_sub(boot_ms())))
    }
}

/// The id of this boot of the host.
pub fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        text.trim().into()
    })
}

/// Milliseconds since the host started, sleep included: setting the wall clock does not change it.
pub fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The time of the wall clock, if it had not been set since this boot's first server: decides which records are old.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Steady {
    boot: String,
    /// The wall clock at the start of the boot clock.
    start_ms: u64,
}

impl Steady {
    /// The one of an earlier server of this boot, else one that begins now.
    pub fn open(store: &Store) -> Steady {
        let known = store.setting(SETTING).ok().flatten();
        let known = known.and_then(|bytes| serde_json::from_slice::<Steady>(&bytes).ok());
        if let Some(steady) = known.filter(|steady| steady.boot == boot_id()) {
            return steady;
        }
        let steady = Steady { boot: boot_id().into(), start_ms: now_ms().saturating_sub(boot_ms()) };
        let stored = serde_json::to_vec(&steady).map(|bytes| store.set_setting(SETTING, &bytes));
        if !matches!(stored, Ok(Ok(()))) {
            tracing::warn!("the clock could not be noted: if it is set, old records may go too soon");
        }
        steady
    }

    /// The earlier of both clocks: after a jump either way nothing is taken for older than it is.
    pub fn cautious_now_ms(&self) -> u64 {
        now_ms().min(self.start_ms.saturating_add(boot_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_of_this_boot_comes_nearer_and_one_of_another_tells_nothing() {
        let instant = BootInstant::after(Duration::from_secs(60));
        let left = instant.left().unwrap();
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30), "{left:?}");
        assert_eq!(BootInstant { boot: "another".into(), ..instant }.left(), None);
        assert_eq!(BootInstant { boot: boot_id().into(), ms: 0 }.left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_wall_clock_that_was_set_makes_nothing_older() {
        const DAY: u64 = 86_400_000;
        let noted = |start_ms| Steady { boot: boot_id().into(), start_ms };
        let right = now_ms() - boot_ms();
        // If the clock was set forward since, the noted one counts; if it was set back, the wall clock itself.
        for (steady, expected) in
            [(noted(right - DAY), now_ms() - DAY), (noted(right), now_ms()), (noted(right + DAY), now_ms())]
        {
            assert!(steady.cautious_now_ms().abs_diff(expected) < JUMP_MS, "{steady:?}");
        }
    }

    #[test]
    fn the_note_of_this_boot_is_kept_and_another_replaced() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let first = Steady::open(&store);
        let moved = Steady { start_ms: first.start_ms - 5_000, ..first };
        store.set_setting(SETTING, &serde_json::to_vec(&moved).unwrap()).unwrap();
        assert_eq!(Steady::open(&store).start_ms, moved.start_ms);
        let foreign = Steady { boot: "another".into(), ..moved.clone() };
        store.set_setting(SETTING, &serde_json::to_vec(&foreign).unwrap()).unwrap();
        assert!(Steady::open(&store).start_ms > moved.start_ms);
    }
}
