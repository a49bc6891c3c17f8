//! Limits as text -> limits as numbers, each within the range that a fence can hold.

use paddock_model::{LimitError, Limits, LimitsLayer, QuantityError, parse_bytes, parse_duration};
use std::time::Duration;

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum LimitsError {
    #[error("{limit} limit {problem}")]
    Unreadable { limit: &'static str, problem: String },
    #[error(transparent)]
    Outside(#[from] LimitError),
}

pub fn resolve(layer: &LimitsLayer) -> Result<Limits, LimitsError> {
    let usual = Limits::default();
    let limits = Limits {
        memory: read("memory", &layer.memory, parse_bytes)?.unwrap_or(usual.memory),
        cpus: read("cpus", &layer.cpus, parse_processors)?.unwrap_or(usual.cpus),
        pids: read("pids", &layer.pids, parse_count)?.unwrap_or(usual.pids),
        disk: read("disk", &layer.disk, parse_bytes)?.unwrap_or(usual.disk),
        files: read("files", &layer.files, parse_count)?.unwrap_or(usual.files),
        output: read("output", &layer.output, parse_bytes)?.unwrap_or(usual.output),
        timeout: read("timeout", &layer.timeout, parse_timeout)?.unwrap_or(usual.timeout),
    };
    limits.check()?;
    Ok(limits)
}

fn read<T>(
    limit: &'static str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<Option<T>, LimitsError> {
    let parsed = text.as_deref().map(parse).transpose();
    parsed.map_err(|error| LimitsError::Unreadable { limit, problem: error.to_string() })
}

fn parse_processors(text: &str) -> Result<f64, QuantityError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let reason = "is not a number of processors: write a positive number such as 0.5 or 2";
    text.parse().ok().filter(|_| plain).ok_or_else(|| refused(text, reason))
}

fn parse_count(text: &str) -> Result<u32, QuantityError> {
    text.parse().map_err(|_| refused(text, "is not a count: write a positive whole number such as 64"))
}

fn parse_timeout(text: &str) -> Result<Option<Duration>, QuantityError> {
    if text == "none" { Ok(None) } else { parse_duration(text).map(Some) }
}

fn refused(text: &str, reason: &'static str) -> QuantityError {
    QuantityError { value: text.chars().take(64).collect(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(limit: &str, value: &str) -> LimitsLayer {
        let json = serde_json::json!({ limit: value });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn every_limit_refuses_zero_negative_and_absurd_values_by_name_and_value() {
        for limit in LimitsLayer::KEYS {
            for value in ["0", "-1", "9e99", "", "lots", "99999999999999999999999"] {
                let message = resolve(&layer(limit, value)).expect_err(value).to_string();
                assert!(message.starts_with(&format!("{limit} limit ")), "{limit} {value:?}: {message}");
                assert!(message.len() < 200, "{message}");
            }
        }
        let message = |limit, value| resolve(&layer(limit, value)).unwrap_err().to_string();
        assert_eq!(
            message("memory", "9e99"),
            "memory limit `9e99` is not a size: write a positive number with an optional unit, such as 512MiB, 2G or 1048576"
        );
        assert_eq!(
            message("pids", "-1"),
            "pids limit `-1` is not a count: write a positive whole number such as 64"
        );
        assert_eq!(message("pids", "0"), "pids limit 0 is outside 1 to 4194304");
        assert_eq!(message("cpus", "0"), "cpus limit 0 is outside 0.01 to 4096");
    }

    #[test]
    fn a_timeout_can_be_switched_off() {
        assert_eq!(resolve(&layer("timeout", "none")).unwrap().timeout, None);
        assert_eq!(resolve(&LimitsLayer::default()).unwrap(), Limits::default());
    }
}
