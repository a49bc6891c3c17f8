//! The arguments of a script: one JSON object, in its order, and the values of its references.

use crate::ScriptError;
use crate::resource::{Reference, Resource, field, kind_of};
use indexmap::IndexMap;
use paddock_model::SecretLayer;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Arguments by name, in the order in which they were given.
pub type Arguments = IndexMap<String, Value>;

pub const LARGEST_ARGUMENTS: usize = 2 << 20;

/// One JSON object.
pub fn parse_arguments(text: &str) -> Result<Arguments, ScriptError> {
    if text.len() > LARGEST_ARGUMENTS {
        return Err(ScriptError::ArgumentsTooLarge(text.len()));
    }
    let not_json = |error: serde_json::Error| ScriptError::ArgumentsNotJson(error.to_string());
    match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(not_json),
        false => {
            let value: Value = serde_json::from_str(text).map_err(not_json)?;
            Err(ScriptError::ArgumentsNotAnObject(kind_of(&value)))
        }
    }
}

/// The value of one `k=v`: parsed as JSON if it is JSON, else text.
pub fn parse_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

/// Names of the resources that arguments name, each once.
pub(crate) fn named(arguments: &Arguments) -> Result<Vec<String>, ScriptError> {
    let mut names = Vec::new();
    for (argument, value) in arguments {
        visit(argument, value, &mut |reference| {
            if !names.contains(&reference.name) {
                names.push(reference.name);
            }
            Ok(())
        })?;
    }
    Ok(names)
}

/// Arguments with their references filled in.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Resolved {
    pub arguments: Map<String, Value>,
    /// Key: the place in the arguments (RFC 6901). Value: the variable whose placeholder belongs there.
    pub placeholders: BTreeMap<String, String>,
    /// Key: that variable. Value: the resource whose value stays outside.
    pub secrets: BTreeMap<String, SecretLayer>,
    /// In the order given, with their values.
    pub ordered: Vec<String>,
}

pub(crate) fn resolve(
    arguments: &Arguments,
    resources: &BTreeMap<String, Resource>,
) -> Result<Resolved, ScriptError> {
    let mut resolved = Resolved::default();
    for (name, value) in arguments {
        let place = format!("/{}", escaped(name));
        let value = resolved.filled(name, value, &place, resources)?;
        resolved.arguments.insert(name.clone(), value);
        resolved.ordered.push(name.clone());
    }
    Ok(resolved)
}

impl Resolved {
    fn filled(
        &mut self,
        argument: &str,
        value: &Value,
        place: &str,
        resources: &BTreeMap<String, Resource>,
    ) -> Result<Value, ScriptError> {
        Ok(match value {
            Value::String(text) => match reference(argument, text)? {
                Some(reference) => self.looked_up(&reference, place, resources)?,
                None => value.clone(),
            },
            Value::Array(list) => {
                let each = list.iter().enumerate();
                let filled =
                    each.map(|(at, one)| self.filled(argument, one, &format!("{place}/{at}"), resources));
                Value::Array(filled.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let filled = fields.iter().map(|(name, one)| {
                    let place = format!("{place}/{}", escaped(name));
                    Ok((name.clone(), self.filled(argument, one, &place, resources)?))
                });
                Value::Object(filled.collect::<Result<_, ScriptError>>()?)
            }
            other => other.clone(),
        })
    }

    fn looked_up(
        &mut self,
        reference: &Reference,
        place: &str,
        resources: &BTreeMap<String, Resource>,
    ) -> Result<Value, ScriptError> {
        let (resource, found) = look_up(reference, resources)?;
        let mut found = found.clone();
        for (path, hosts) in &resource.secrets {
            let Some(inside) = below(path, &reference.field) else { continue };
            let variable = self.variable(bound(&reference.name, path, hosts));
            let steps = inside.split('.').filter(|step| !step.is_empty());
            let pointer = steps.fold(String::new(), |all, step| format!("{all}/{}", escaped(step)));
            if let Some(leaf) = found.pointer_mut(&pointer) {
                *leaf = Value::Null;
                self.placeholders.insert(format!("{place}{pointer}"), variable);
            }
        }
        Ok(found)
    }

    /// One variable for one value and its hosts, however often it is used.
    fn variable(&mut self, layer: SecretLayer) -> String {
        let known = self.secrets.iter().find(|(_, known)| **known == layer).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| {
            let name = format!("PADDOCK_ARGUMENT_{}", self.secrets.len() + 1);
            self.secrets.insert(name.clone(), layer);
            name
        })
    }
}

/// Named, without its value: the maker of the sandbox has that.
pub(crate) fn bound(name: &str, field: &str, hosts: &[String]) -> SecretLayer {
    let dot = if field.is_empty() { "" } else { "." };
    let from = Some(format!("resource:{name}{dot}{field}"));
    SecretLayer { value: None, from, hosts: hosts.to_vec(), ..SecretLayer::default() }
}

/// The resource, and the part of it that is asked for.
pub(crate) fn look_up<'a>(
    reference: &Reference,
    resources: &'a BTreeMap<String, Resource>,
) -> Result<(&'a Resource, &'a Value), ScriptError> {
    let name = || reference.name.clone();
    let resource = resources.get(&reference.name).ok_or_else(|| ScriptError::NoResource(name()))?;
    let found = field(&resource.value, &reference.field)
        .ok_or_else(|| ScriptError::NoField { name: name(), field: crate::error::shown(&reference.field) })?;
    if reference.variable && !found.is_string() {
        return Err(ScriptError::NotAText { name: name(), found: kind_of(found) });
    }
    Ok((resource, found))
}

/// The path of a field as seen from another that holds it, or is it.
fn below<'a>(path: &'a str, from: &str) -> Option<&'a str> {
    if from.is_empty() || path == from {
        return Some(if path == from { "" } else { path });
    }
    path.strip_prefix(from)?.strip_prefix('.')
}

fn visit(
    argument: &str,
    value: &Value,
    found: &mut dyn FnMut(Reference) -> Result<(), ScriptError>,
) -> Result<(), ScriptError> {
    match value {
        Value::String(text) => reference(argument, text)?.map_or(Ok(()), found),
        Value::Array(list) => list.iter().try_for_each(|one| visit(argument, one, found)),
        Value::Object(fields) => fields.values().try_for_each(|one| visit(argument, one, found)),
        _ => Ok(()),
    }
}

fn reference(argument: &str, text: &str) -> Result<Option<Reference>, ScriptError> {
    Reference::parse(text).map_err(|_| ScriptError::Reference {
        name: crate::error::shown(argument),
        value: crate::error::shown(text),
    })
}

fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resources() -> BTreeMap<String, Resource> {
        let secrets = [("auth.key".to_string(), vec!["api.example.com".to_string()])].into();
        let value = json!({ "url": "https://api.example.com", "auth": { "key": "sk-real-value" } });
        let own = Resource { kind: "api".into(), value, secrets };
        let plain =
            Resource { kind: "variable".into(), value: json!("plain text"), secrets: BTreeMap::new() };
        [("u/ada/api".into(), own), ("word".into(), plain)].into()
    }

    #[test]
    fn a_value_that_is_bound_to_hosts_stays_outside() {
        let arguments = parse_arguments(
            r#"{"b": {"in": ["$res:u/ada/api"]}, "a": "$res:u/ada/api.auth.key", "w": "$var:word"}"#,
        )
        .unwrap();
        assert_eq!(named(&arguments).unwrap(), ["u/ada/api", "word"]);
        let resolved = resolve(&arguments, &resources()).unwrap();
        let text = serde_json::to_string(&resolved.arguments).unwrap();
        assert!(!text.contains("sk-real"), "{text}");
        assert_eq!(resolved.arguments["w"], "plain text");
        assert_eq!(resolved.arguments["b"]["in"][0]["url"], "https://api.example.com");
        assert_eq!(resolved.secrets.len(), 1);
        let places: Vec<_> = resolved.placeholders.keys().collect();
        assert_eq!(places, ["/a", "/b/in/0/auth/key"]);
        assert_eq!(resolved.ordered, ["b", "a", "w"]);
    }

    #[test]
    fn references_to_nothing_are_named() {
        for (text, code) in [
            (r#"{"a": "$res:nope"}"#, "resource_not_found"),
            (r#"{"a": "$res:word.field"}"#, "bad_resource"),
            (r#"{"a": "$var:u/ada/api"}"#, "bad_resource"),
            (r#"{"a": ["$res:../x"]}"#, "bad_arguments"),
            (r#"{"a": "$encrypted:x"}"#, "bad_arguments"),
        ] {
            let arguments = parse_arguments(text).unwrap();
            assert_eq!(resolve(&arguments, &resources()).unwrap_err().code(), code, "{text}");
        }
    }

    #[test]
    fn arguments_are_one_object() {
        for bad in ["", "[]", "3", "\"x\"", "null", "{", "{\"a\": }", "{} {}", "{'a': 1}"] {
            let error = parse_arguments(bad).unwrap_err();
            assert_eq!(error.code(), "bad_arguments", "{bad}");
            assert!(error.hint().is_some());
        }
        let many = "x".repeat(LARGEST_ARGUMENTS + 1);
        assert!(matches!(parse_arguments(&many), Err(ScriptError::ArgumentsTooLarge(_))));
        assert_eq!(parse_value("3"), json!(3));
        assert_eq!(parse_value("three"), json!("three"));
        assert_eq!(parse_value("{\"a\":1}"), json!({ "a": 1 }));
    }
}
