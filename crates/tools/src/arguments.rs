//! A model's arguments, checked against the tool's parameters. They may be anything; a mistake is told to the model.

use crate::definitions::{Kind, Parameter, Tool, UnknownTool, known};
use serde_json::{Map, Value};

/// The model's mistake; the message is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCall(pub String);

/// Only arguments that the tool has, each of its type, and all required ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// `given` is an object, or the text of one, as OpenAI's models write it.
    pub fn parse(tool: &str, given: &Value) -> Result<Arguments, BadCall> {
        let Some(definition) = known().get(tool) else {
            let name = short(tool, 80).escape_debug().to_string();
            return Err(BadCall(UnknownTool { name }.to_string()));
        };
        let given = match given {
            Value::String(text) if text.is_empty() => Value::Object(Map::new()),
            Value::String(text) => serde_json::from_str(text)
                .map_err(|error| BadCall(format!("the arguments of {tool} are not JSON: {error}")))?,
            other => other.clone(),
        };
        match given {
            Value::Object(given) => checked(tool, definition, given),
            other => Err(BadCall(format!("the arguments of {tool} are no object but {}", kind_of(&other)))),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The text of a required parameter.
    pub fn required(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    pub fn integer(&self, name: &str) -> Option<usize> {
        self.0.get(name).and_then(Value::as_u64).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }
}

fn checked(tool: &str, definition: &Tool, given: Map<String, Value>) -> Result<Arguments, BadCall> {
    for name in given.keys() {
        if !definition.parameters.contains_key(name) {
            let known: Vec<&str> = definition.parameters.keys().map(String::as_str).collect();
            let name = short(name, 80);
            return Err(BadCall(format!(
                "{tool} has no argument '{}'; it takes {}",
                name.escape_debug(),
                known.join(", ")
            )));
        }
    }
    for name in &definition.required {
        if given.get(name).is_none_or(Value::is_null) {
            let kind = definition.parameters.get(name).map_or("string", |parameter| parameter.kind.name());
            return Err(BadCall(format!("{tool} needs the argument '{name}': {kind}")));
        }
    }
    let mut checked = Map::new();
    // Some models write null for an argument that they leave out.
    for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        if let Some(parameter) = definition.parameters.get(&name) {
            let value = check(tool, &name, value, parameter)?;
            checked.insert(name, value);
        }
    }
    Ok(Arguments(checked))
}

fn check(tool: &str, name: &str, value: Value, parameter: &Parameter) -> Result<Value, BadCall> {
    let value = if parameter.kind == Kind::Integer { whole(value) } else { value };
    let is = |what: &str| BadCall(format!("{name} of {tool} is {}{what}", shown(&value)));
    let fits = match parameter.kind {
        Kind::String => value.is_string(),
        Kind::Boolean => value.is_boolean(),
        Kind::Integer => value.is_i64() || value.is_u64(),
        Kind::Number => value.is_number(),
    };
    if !fits {
        return Err(is(&format!(", not of type {}", parameter.kind.name())));
    }
    if !parameter.choices.is_empty() && !parameter.choices.iter().any(|choice| value == choice.as_str()) {
        return Err(is(&format!(", not one of {}", parameter.choices.join(", "))));
    }
    let number = value.as_f64();
    if let (Some(number), Some(least)) = (number, parameter.minimum)
        && number < least as f64
    {
        return Err(is(&format!("; {least} is the least")));
    }
    if let (Some(number), Some(most)) = (number, parameter.maximum)
        && number > most as f64
    {
        return Err(is(&format!("; {most} is the most")));
    }
    Ok(value)
}

/// `3.0` is a whole number too.
fn whole(value: Value) -> Value {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 9e15 => {
            Value::from(number as i64)
        }
        _ => value,
    }
}

/// As the SDK names them.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { format!("{}...", short(&text, 77)) }
}

fn short(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_models_write_otherwise_is_understood() {
        let arguments =
            Arguments::parse("read_file", &json!({"path": "x", "start_line": 3.0, "lines": null})).unwrap();
        assert_eq!((arguments.required("path"), arguments.integer("start_line")), ("x", Some(3)));
        assert_eq!(arguments.integer("lines"), None);
        assert_eq!(Arguments::parse("list_files", &json!("")).unwrap(), Arguments::default());
        assert_eq!(Arguments::parse("run_code", &json!("{\"code\": \"1\"}")).unwrap().required("code"), "1");
    }

    #[test]
    fn broken_json_and_long_nonsense_are_told_shortly() {
        for text in ["{", "{\"code\": NaN}", "{\"code\": \"1\"} {}"] {
            assert!(
                Arguments::parse("run_code", &json!(text)).unwrap_err().0.contains("are not JSON"),
                "{text}"
            );
        }
        let error =
            Arguments::parse("run_code", &json!({"code": "1", "language": "x".repeat(1 << 20)})).unwrap_err();
        assert!(error.0.len() < 200, "{error}");
        let error = Arguments::parse(&"x".repeat(1 << 20), &json!({})).unwrap_err();
        assert!(error.0.len() < 300, "{error}");
    }
}
