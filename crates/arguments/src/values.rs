//! Values that the parser checks itself. Each refusal names the expected value.

use paddock_model::api::{Idle, IdleAction, TtlAction, UnderPressure};
use paddock_model::{parse_bytes, parse_duration};

/// An id or a name: what the server is asked for. Only what cannot be one is refused here.
pub fn word(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty".to_string()),
        "." | ".." => Err("it is not an id or a name".to_string()),
        _ => Ok(text.to_string()),
    }
}

/// Sandboxes of one host. More than a million fit on none.
pub fn sandboxes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("write a number of sandboxes from 1 to 1000000, without separators".to_string()),
    }
}

/// From text such as 1048576, 512MiB or 2G.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// `off` is 0.
pub fn bytes_or_off(text: &str) -> Result<u64, String> {
    if text == "off" { Ok(0) } else { bytes(text) }
}

/// The same, and 0 for none.
pub fn bytes_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { bytes(text) }
}

/// A host, perhaps with a port.
pub fn host(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    match text.is_empty() || !text.chars().all(plain) {
        true => Err("write HOST or HOST:PORT, without a scheme or a path".to_string()),
        false => Ok(text.to_string()),
    }
}

/// Seconds, from text such as 90, 90s, 30m or 2h.
pub fn duration(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|duration| duration.as_secs_f64()).map_err(|error| error.to_string())
}

pub fn seconds(text: &str) -> Result<f64, String> {
    duration(text)
}

/// `600`, `10m`, `600:hibernate`.
pub fn idle(text: &str) -> Result<Idle, String> {
    let (seconds, action) = time_and_action(text)?;
    let action = match action {
        TtlAction::Kill => IdleAction::Kill,
        TtlAction::Pause => IdleAction::Pause,
        TtlAction::Hibernate => IdleAction::Hibernate,
    };
    Ok(Idle { seconds, action })
}

/// A time to live, and what happens at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ttl {
    pub seconds: f64,
    pub action: TtlAction,
}

/// `600`, `10m`, `2h:pause`.
pub fn ttl(text: &str) -> Result<Ttl, String> {
    time_and_action(text).map(|(seconds, action)| Ttl { seconds, action })
}

fn time_and_action(text: &str) -> Result<(f64, TtlAction), String> {
    let (time, action) = text.split_once(':').unwrap_or((text, "kill"));
    let action = match action {
        "kill" => TtlAction::Kill,
        "pause" => TtlAction::Pause,
        "hibernate" => TtlAction::Hibernate,
        other => {
            let other = other.escape_debug();
            return Err(format!("`{other}` is not an action: write kill, pause or hibernate"));
        }
    };
    Ok((duration(time)?, action))
}

pub fn under_pressure(text: &str) -> Result<UnderPressure, String> {
    match text {
        "hibernate" => Ok(UnderPressure::Hibernate),
        "keep" => Ok(UnderPressure::Keep),
        other => Err(format!("`{}` is not an action: write hibernate or keep", other.escape_debug())),
    }
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("write KEY=VALUE".to_string()),
    }
}

/// The name of a node, for people.
pub fn node_name(text: &str) -> Result<String, String> {
    match paddock_model::check_hostname(text) {
        Ok(()) => Ok(text.to_string()),
        Err(error) => Err(error.rule.to_string()),
    }
}

/// A label of a node: both parts can stand in a header.
pub fn label(text: &str) -> Result<(String, String), String> {
    let plain = |text: &str| {
        text.len() <= 63
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
    };
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && plain(key) && plain(value) => {
            Ok((key.to_string(), value.to_string()))
        }
        _ => Err("write KEY=VALUE, each at most 63 of a-z, A-Z, 0-9, `-`, `_`, `.` and `/`".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_key_and_only_plain_letters() {
        assert_eq!(label("zone=eu-1"), Ok(("zone".into(), "eu-1".into())));
        assert_eq!(label("gpu="), Ok(("gpu".into(), String::new())));
        for bad in ["", "zone", "=x", "a b=c", "a=b c", "a=b\n", "a=b=c", &format!("a={}", "x".repeat(64))] {
            label(bad).expect_err(bad);
        }
    }

    #[test]
    fn idle_has_a_time_and_perhaps_an_action() {
        assert_eq!(idle("600"), Ok(Idle { seconds: 600.0, action: IdleAction::Kill }));
        assert_eq!(under_pressure("keep"), Ok(UnderPressure::Keep));
        assert!(under_pressure("kill").is_err());
        assert_eq!(idle("1.5m:hibernate"), Ok(Idle { seconds: 90.0, action: IdleAction::Hibernate }));
        assert!(idle("600:sleep").unwrap_err().contains("`sleep` is not an action"));
        assert_eq!(ttl("2h"), Ok(Ttl { seconds: 7200.0, action: TtlAction::Kill }));
        assert_eq!(ttl("90s:pause"), Ok(Ttl { seconds: 90.0, action: TtlAction::Pause }));
        assert!(ttl("2h:end").unwrap_err().contains("`end` is not an action"));
        assert!(idle(":pause").is_err() && idle("0:pause").is_err());
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_before_it_becomes_part_of_a_path() {
        assert!(word("").is_err() && word("..").is_err());
        assert_eq!(word("../x"), Ok("../x".to_string()), "the server refuses it, as one word");
    }

    #[test]
    fn a_pair_needs_a_key() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
