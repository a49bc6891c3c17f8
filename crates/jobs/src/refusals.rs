//! Errors of a request about jobs: the field, its value, and a correct form.

use paddock_fleet::{FleetError, Kind};

pub fn seconds(field: &str, value: Option<f64>, longest: f64) -> Result<(), FleetError> {
    match value {
        // A number that is not one fails too.
        Some(value) if !(value >= 0.001 && value <= longest) => {
            Err(wrong(field, &value.to_string(), &format!("0.001 to {longest}")))
        }
        _ => Ok(()),
    }
}

pub fn wrong(field: &str, value: &str, hint: &str) -> FleetError {
    invalid(format!("field `{field}`: `{value}` is not allowed")).hint(format!("write {hint}"))
}

pub fn invalid(message: impl Into<String>) -> FleetError {
    FleetError::new(Kind::Invalid, "invalid_request", message)
}

pub fn shown(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}
