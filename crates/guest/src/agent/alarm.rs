//! When one call within an exec has taken too long: it is interrupted, once more after half the grace in case that it
//! had not begun to listen, and ended when it does not heed that.

use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Alarm {
    set: Option<Set>,
    rung: Option<u32>,
}

struct Set {
    call: u32,
    at: Instant,
    grace: Duration,
    /// Interrupts so far.
    interrupts: u32,
}

const INTERRUPTS: u32 = 2;

impl Alarm {
    /// Takes the place of any before it.
    pub fn set(&mut self, call: u32, ms: Option<u64>, grace_ms: u64) {
        let later = |ms| Instant::now().checked_add(Duration::from_millis(ms));
        let grace = Duration::from_millis(grace_ms);
        self.set = ms.and_then(later).map(|at| Set { call, at, grace, interrupts: 0 });
    }

    pub fn next(&self) -> Option<Instant> {
        self.set.as_ref().map(|set| set.at)
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.set.as_ref().is_some_and(|set| set.at <= now)
    }

    /// The call whose alarm has rung last.
    pub fn rung(&self) -> Option<u32> {
        self.rung
    }

    /// True if an interrupt is enough. If not, the exec is to be ended, and the alarm with it.
    pub fn ring(&mut self) -> bool {
        let Some(set) = self.set.as_mut().filter(|set| set.interrupts < INTERRUPTS) else {
            self.set = None;
            return false;
        };
        set.interrupts += 1;
        set.at += set.grace / INTERRUPTS;
        self.rung = Some(set.call);
        true
    }

    /// The work stood still for so long.
    pub fn shift(&mut self, by: Duration) {
        if let Some(set) = &mut self.set {
            set.at += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_interrupts_twice_then_ends_and_then_never_again() {
        let mut alarm = Alarm::default();
        assert!(!alarm.is_due(Instant::now()));
        alarm.set(7, Some(0), 0);
        assert!(alarm.is_due(Instant::now()) && alarm.ring());
        assert_eq!(alarm.rung(), Some(7));
        assert!(alarm.is_due(Instant::now()) && alarm.ring());
        assert!(alarm.is_due(Instant::now()) && !alarm.ring());
        assert!(!alarm.is_due(Instant::now()));
        alarm.set(8, Some(60_000), 0);
        alarm.set(8, None, 0);
        assert_eq!((alarm.next(), alarm.rung()), (None, Some(7)));
    }
}
