//! Times as people say them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

/// `5 minutes ago`; a time in the future is `in 5 minutes`.
pub fn relative(at_ms: u64, now_ms: u64) -> String {
    if at_ms > now_ms {
        format!("in {}", nearest(at_ms - now_ms))
    } else {
        format!("{} ago", length(now_ms - at_ms))
    }
}

/// One number and one unit, rounded: an hour less a moment is an hour.
fn nearest(ms: u64) -> String {
    let round = |unit: u64| (ms + unit / 2) / unit * unit;
    let rounded = [1000, 60_000, 3_600_000].map(round);
    match rounded {
        [seconds, _, _] if seconds < 60_000 => length(seconds),
        [_, minutes, _] if minutes < 3_600_000 => length(minutes),
        [_, _, hours] if hours < 86_400_000 => length(hours),
        _ => length(round(86_400_000)),
    }
}

/// One number and one unit, rounded down.
pub fn length(ms: u64) -> String {
    let seconds = ms / 1000;
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// `2026-01-31T23:59:58.123Z`.
pub fn utc(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1000)
}

/// The day of the Gregorian calendar, counted in eras of 400 years that begin in March.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_over_leap_years_are_right() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(utc(1_769_903_998_123), "2026-01-31T23:59:58.123Z");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn lengths_have_one_unit() {
        assert_eq!(relative(1000, 61_000), "1 minute ago");
        assert_eq!(relative(7_300_000, 0), "in 2 hours");
        assert_eq!(relative(0, 999), "0 seconds ago");
        assert_eq!(relative(3_599_400, 0), "in 1 hour", "a time to live of an hour, a moment ago");
        assert_eq!(relative(3_540_000, 0), "in 59 minutes");
        assert_eq!(relative(59_600, 0), "in 1 minute");
        assert_eq!(relative(86_399_000, 0), "in 1 day");
        assert_eq!(length(86_400_000 * 3), "3 days");
    }
}
