//! Points in time as RFC 3339 writes them, in UTC.

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const NANOSECONDS: i128 = 1_000_000;
/// Always with three digits of a second, as JavaScript writes it.
const WRITTEN: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// As in `2026-11-17T09:30:00.250Z`. A time outside the calendar is the beginning of 1970.
pub fn rfc3339(at_ms: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * NANOSECONDS);
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(WRITTEN).unwrap_or_default()
}

pub fn rfc3339_unsigned(at_ms: u64) -> String {
    rfc3339(i64::try_from(at_ms).unwrap_or(i64::MAX))
}

/// Milliseconds since 1970; `None` where it is no such text. Python writes times of no zone, which are UTC here.
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let parsed = OffsetDateTime::parse(text, &Rfc3339);
    let at = parsed.or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339)).ok()?;
    i64::try_from(at.unix_timestamp_nanos().div_euclid(NANOSECONDS)).ok()
}

/// The fleet refuses a time to live of zero, so that this stands for it.
const SHORTEST_SECONDS: f64 = 0.001;

/// A time to live that the fleet takes; what it does not take it refuses itself.
pub fn seconds(timeout: f64) -> f64 {
    if timeout == 0.0 { SHORTEST_SECONDS } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_in_time() {
        for (at_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_461_800_250, "2025-11-18T10:30:00.250Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(at_ms), text);
            assert_eq!(parse(text), Some(at_ms), "{text}");
        }
        assert_eq!(rfc3339_unsigned(u64::MAX), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn other_forms_are_read_and_nonsense_is_not() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1969-12-31T23:30:00-00:30"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:01.5"), Some(1500));
        assert_eq!(parse(" 1970-01-01T00:00:01.123456+00:00"), Some(1123));
        for bad in
            ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T25:00:00Z", "1970-01-01T0x:00:00Z"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
