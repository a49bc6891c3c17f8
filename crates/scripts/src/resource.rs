//! Typed resources: values that are kept for scripts, and how arguments name them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A resource as a store has it. Text that is bound to hosts may be replaced by any other text here: only its type is
/// looked at.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// The kind, in its owner's word: `anthropic`, `postgresql`; a variable's is `variable`.
    pub kind: String,
    pub value: Value,
    /// Key: the field (`apiKey`, `auth.token`, empty for the value itself). Value: the hosts that this text is bound
    /// to. It never enters a sandbox; a placeholder stands for it there, and the gate puts it into requests to these
    /// hosts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Vec<String>>,
}

/// Its value is not printed.
impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource").field("kind", &self.kind).field("secrets", &self.secrets).finish()
    }
}

/// `$res:NAME[.FIELD...]` or `$var:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    /// Empty: all of it.
    pub field: String,
    /// It has to be text.
    pub variable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("resource name `{0}` is not allowed")]
    Name(String),
    #[error("`{0}` cannot be looked up here")]
    Kind(String),
}

impl Reference {
    /// `None`: it is ordinary text.
    pub fn parse(text: &str) -> Result<Option<Reference>, ReferenceError> {
        let (variable, rest) = match text.split_once(':') {
            Some(("$res", rest)) => (false, rest),
            Some(("$var", rest)) => (true, rest),
            Some((kind @ ("$jsonvar" | "$encrypted"), _)) => return Err(ReferenceError::Kind(kind.into())),
            _ => return Ok(None),
        };
        let (name, field) = rest.split_once('.').unwrap_or((rest, ""));
        check_resource_name(name)?;
        Ok(Some(Reference { name: name.into(), field: field.into(), variable }))
    }
}

/// Segments of letters, digits, `_` and `-`, with `/` between them, as Windmill's paths are (`u/ada/anthropic`).
pub fn check_resource_name(name: &str) -> Result<(), ReferenceError> {
    let segment = |text: &str| {
        !text.is_empty()
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    match (1..=255).contains(&name.len()) && name.split('/').all(segment) {
        true => Ok(()),
        false => Err(ReferenceError::Name(crate::error::shown(name))),
    }
}

/// A field by its dotted path; numbers count in lists.
pub fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(value, |inside, step| match inside {
        Value::Object(fields) => fields.get(step),
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_text() {
        assert_eq!(Reference::parse("plain: $res").unwrap(), None);
        assert_eq!(Reference::parse("$resident").unwrap(), None);
        let found = Reference::parse("$res:u/ada/anthropic.auth.key").unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.field.as_str(), found.variable),
            ("u/ada/anthropic", "auth.key", false)
        );
        assert!(Reference::parse("$var:token").unwrap().unwrap().variable);
        for bad in ["$res:", "$res:../x", "$var:a//b", "$res:a b", "$encrypted:x", "$jsonvar:x", "$res:.x"] {
            Reference::parse(bad).expect_err(bad);
        }
    }

    #[test]
    fn a_value_is_not_printed() {
        let resource = Resource { kind: "x".into(), value: Value::from("sk-real"), secrets: BTreeMap::new() };
        assert!(!format!("{resource:?}").contains("sk-real"));
    }
}
