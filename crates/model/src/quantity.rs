//! Sizes and durations as people write them: `512MiB`, `1.5g`, `30s`, `2h`, `1h30m`.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantityError {
    pub value: String,
    pub reason: &'static str,
}

impl std::fmt::Display for QuantityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` {}", self.value.escape_debug(), self.reason)
    }
}

impl std::error::Error for QuantityError {}

const SIZE_HELP: &str =
    "is not a size: write a positive number with an optional unit, such as 512MiB, 2G or 1048576";
const DURATION_HELP: &str =
    "is not a duration: write a positive number with a unit, such as 500ms, 30s, 5m, 1h30m, 2d or 1w";

/// Bytes from text. `k`, `m`, `g` and `t` count in 1024, with or without `i` and `B`, as Docker users expect.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(error(text, SIZE_HELP)),
    };
    let bytes = scaled(text, number, factor as f64, SIZE_HELP)?;
    if bytes < 1.0 {
        return Err(error(text, "is zero: a size must be at least one byte"));
    }
    Ok(bytes as u64)
}

/// A duration from text: one number with a unit, or several with units that become smaller, as in `1h30m`. A bare number
/// counts seconds.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let (mut rest, mut milliseconds, mut last) = (text.trim(), 0.0, f64::INFINITY);
    while !rest.is_empty() || last.is_infinite() {
        let (number, after) = split_unit(rest);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, following) = after.split_at(end);
        let seconds = seconds_of(unit).ok_or_else(|| error(text, DURATION_HELP))?;
        // `30m1h` is as likely a slip as it is meant; and only the whole of a duration may be without a unit.
        if seconds >= last || (unit.is_empty() && last.is_finite()) {
            return Err(error(text, DURATION_HELP));
        }
        milliseconds += scaled(text, number, seconds * 1000.0, DURATION_HELP)?;
        (rest, last) = (following.trim_start(), seconds);
    }
    if milliseconds < 1.0 {
        return Err(error(text, "is zero: a duration must be at least one millisecond"));
    }
    if milliseconds > 1000.0 * 86_400.0 * 366.0 {
        return Err(error(text, "is longer than a year"));
    }
    Ok(Duration::from_millis(milliseconds as u64))
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 7.0 * 86_400.0,
        _ => return None,
    })
}

pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.trim_end_matches(".0"), UNITS[unit])
}

pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        _ if ms.is_multiple_of(3_600_000) => format!("{} h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        _ => format!("{:.2} s", ms as f64 / 1000.0),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// Precondition of the callers' casts: the result is finite and below 2^63.
fn scaled(text: &str, number: &str, factor: f64, help: &'static str) -> Result<f64, QuantityError> {
    let value: f64 = number.parse().map_err(|_| error(text, help))?;
    let scaled = value * factor;
    if !scaled.is_finite() || scaled >= 9.2e18 {
        return Err(error(text, "is too large"));
    }
    Ok(scaled)
}

fn error(value: &str, reason: &'static str) -> QuantityError {
    let value = value.chars().take(64).collect();
    QuantityError { value, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_the_forms_people_write() {
        assert_eq!(parse_bytes("1048576"), Ok(1 << 20));
        assert_eq!(parse_bytes("512MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes("512m"), Ok(512 << 20));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        for bad in ["", "0", "-1", "9e99", "1e3", "ten", "5 q", "99999999T", "0.1b", "1\0", "nan", "inf"] {
            let error = parse_bytes(bad).expect_err(bad);
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn durations_in_the_forms_people_write() {
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1d 2h 3min 4s 5ms"), Ok(Duration::from_millis(93_784_005)));
        assert_eq!(parse_duration("1w"), Ok(Duration::from_secs(604_800)));
        for bad in [
            "", "0", "-1", "9e99", "0.0001ms", "900000d", "5 weeks", "30m1h", "1h1h", "1h30", "h", "1h-3m",
            "1hm",
        ] {
            parse_duration(bad).expect_err(bad);
        }
    }

    #[test]
    fn formatted_values_parse_back() {
        for bytes in [1, 1024, 512 << 20, 3 << 29, 1 << 40] {
            assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        }
        for ms in [1, 999, 1000, 61_000, 3_600_000] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
