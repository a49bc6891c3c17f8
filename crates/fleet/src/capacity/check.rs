//! One limit beside the need of sandboxes.

use super::takes::Takes;
use paddock_model::{LimitCheck, LimitState, LimitUnit, format_bytes};

/// A limit as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Limit(u64),
    NoLimit,
    /// Why the limit could not be read.
    Unreadable(String),
}

/// A limit of the host, and the part of it that sandboxes need.
pub struct Question<'a> {
    pub name: &'a str,
    pub setting: Option<String>,
    pub unit: LimitUnit,
    pub found: Found,
    /// The present use of all processes, without the sandboxes that are still to come.
    pub in_use: u64,
    pub takes: Takes,
    /// The number of sandboxes that are still to come.
    pub further: u64,
    /// Makes the remedy for the value that would do.
    pub remedy: &'a dyn Fn(u64) -> String,
}

impl Question<'_> {
    pub fn answer(self) -> LimitCheck {
        let with = |each: u64| self.in_use.saturating_add(self.further.saturating_mul(each));
        let (needed, needed_at_work) = (with(self.takes.idle), with(self.takes.working));
        let state = match self.found {
            Found::Unreadable(_) => LimitState::Unknown,
            Found::Limit(limit) if limit < needed => LimitState::TooLow,
            Found::Limit(limit) if limit < needed_at_work => LimitState::TooLowForWork,
            Found::Limit(_) | Found::NoLimit => LimitState::Enough,
        };
        let remedy = match state {
            LimitState::Enough => None,
            LimitState::Unknown => {
                let setting = self.setting.as_deref().unwrap_or(self.name);
                let needed = self.amount(needed_at_work);
                Some(format!("see yourself that {setting} is at least {needed}"))
            }
            LimitState::TooLow | LimitState::TooLowForWork => Some((self.remedy)(with_room(needed_at_work))),
        };
        LimitCheck {
            name: self.name.to_string(),
            detail: self.detail(needed, needed_at_work),
            limit: if let Found::Limit(limit) = self.found { Some(limit) } else { None },
            state,
            unit: self.unit,
            needed,
            needed_at_work,
            per_sandbox: self.takes.idle,
            per_sandbox_at_work: self.takes.working,
            setting: self.setting,
            remedy,
        }
    }

    fn detail(&self, needed: u64, at_work: u64) -> String {
        let needs = match needed == at_work {
            true => format!("{} needed", self.amount(needed)),
            false => format!("{} needed, {} at work", self.amount(needed), self.amount(at_work)),
        };
        match &self.found {
            Found::Limit(limit) => format!("{}; {needs}", self.amount(*limit)),
            Found::NoLimit => format!("no limit; {needs}"),
            Found::Unreadable(why) => format!("{why}; {needs}"),
        }
    }

    fn amount(&self, value: u64) -> String {
        match self.unit {
            LimitUnit::Bytes => format_bytes(value),
            LimitUnit::Count => grouped(value),
        }
    }
}

/// An eighth more, and a round number, because the use of other processes changes.
fn with_room(needed: u64) -> u64 {
    needed.saturating_add(needed / 8).checked_next_multiple_of(1024).unwrap_or(u64::MAX)
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(found: Found) -> LimitCheck {
        Question {
            name: "processes",
            setting: Some("kernel.pid_max".into()),
            unit: LimitUnit::Count,
            found,
            in_use: 100,
            takes: Takes { idle: 1, working: 3 },
            further: 1000,
            remedy: &|value| format!("sysctl -w kernel.pid_max={value}"),
        }
        .answer()
    }

    #[test]
    fn a_limit_suffices_for_all_or_for_idle_ones_or_not() {
        let cases = [
            (3100, LimitState::Enough),
            (3099, LimitState::TooLowForWork),
            (1100, LimitState::TooLowForWork),
            (1099, LimitState::TooLow),
        ];
        for (limit, state) in cases {
            let check = asked(Found::Limit(limit));
            assert_eq!((check.state, check.limit), (state, Some(limit)));
            let remedy = (state != LimitState::Enough).then(|| "sysctl -w kernel.pid_max=4096".to_string());
            assert_eq!(check.remedy, remedy);
        }
        assert_eq!(asked(Found::Limit(500)).detail, "500; 1,100 needed, 3,100 at work");
    }

    #[test]
    fn what_cannot_be_read_is_not_said_to_suffice() {
        let unreadable = asked(Found::Unreadable("Permission denied".into()));
        assert_eq!((unreadable.state, unreadable.limit), (LimitState::Unknown, None));
        assert!(unreadable.remedy.is_some_and(|remedy| remedy.contains("kernel.pid_max is at least 3,100")));
        let none = asked(Found::NoLimit);
        assert_eq!((none.state, none.limit, none.remedy), (LimitState::Enough, None, None));
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
