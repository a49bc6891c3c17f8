//! Points in time as RFC 3339 writes them, in UTC.

const DAY_MS: i64 = 86_400_000;

/// As in `2026-11-17T09:30:00.250Z`.
pub fn rfc3339(at_ms: i64) -> String {
    let (days, rest) = (at_ms.div_euclid(DAY_MS), at_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil(days);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

pub fn rfc3339_unsigned(at_ms: u64) -> String {
    rfc3339(i64::try_from(at_ms).unwrap_or(i64::MAX))
}

/// Milliseconds since 1970; `None` where it is no such text. A zone other than UTC is taken into account.
pub fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.splitn(3, ':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let milli: String = fraction.chars().chain("000".chars()).take(3).collect();
    let minutes_east = match zone {
        "" | "Z" | "z" => 0,
        zone => {
            let (hours, minutes) = zone[1..].split_once(':').or_else(|| zone[1..].split_at_checked(2))?;
            let east = digits(hours)? * 60 + digits(minutes)?;
            if zone.starts_with('-') { -east } else { east }
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + (minute - minutes_east) * 60 + second;
    in_range.then_some(seconds * 1000 + digits(&milli)?)
}

fn digits(text: &str) -> Option<i64> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years begin in March here, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The other way.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
    }

    #[test]
    fn other_forms_are_read_and_nonsense_is_not() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1969-12-31 23:30:00-0030"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:01.5"), Some(1500));
        for bad in
            ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T25:00:00Z", "1970-01-01T0x:00:00Z"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
