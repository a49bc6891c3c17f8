//! Bash takes arguments by position: which name is which, and how they get there.

use crate::ScriptError;
use crate::arguments::Resolved;
use serde_json::Value;

/// `name="$1"`, `name=${2:-default}`: Windmill reads a script's parameters from these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub position: usize,
    pub optional: bool,
}

const MOST_POSITIONS: usize = 99;

pub fn parameters(source: &str) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    for line in source.lines() {
        let Some(parameter) = parameter(line.trim()) else { continue };
        if !found.iter().any(|other| other.position == parameter.position || other.name == parameter.name) {
            found.push(parameter);
        }
    }
    found.sort_by_key(|parameter| parameter.position);
    found
}

fn parameter(line: &str) -> Option<Parameter> {
    let line = ["local ", "readonly ", "export ", "declare "]
        .iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let quoted = value.strip_prefix('"').and_then(|value| value.split_once('"'));
    let value = quoted.map_or(value, |(inside, _)| inside).strip_prefix('$')?;
    let (position, optional) = match value.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        Some((inside, _)) => match inside.split_once(":-").or_else(|| inside.split_once('-')) {
            Some((position, _)) => (position, true),
            None => (inside, false),
        },
        None => (value.split(|c: char| !c.is_ascii_digit()).next()?, false),
    };
    let position = position.parse().ok().filter(|position| (1..=MOST_POSITIONS).contains(position))?;
    named.then(|| Parameter { name: name.into(), position, optional })
}

/// The program that stands before the script: it puts the script into its file, and the arguments into their places.
pub fn launcher(source: &str, script: &str, resolved: &Resolved) -> Result<String, ScriptError> {
    let words = positions(&parameters(source), resolved)?;
    let directory = script.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let mut text = format!("mkdir -p {directory} && cat > {script} || exit 125\nset --");
    for word in words {
        text.push(' ');
        text.push_str(&word);
    }
    // An image may have no bash.
    text.push_str(&format!(
        "\nif command -v bash >/dev/null 2>&1; then exec bash {script} \"$@\" </dev/null; fi\nexec sh {script} \"$@\" </dev/null\n"
    ));
    Ok(text)
}

/// Arguments by the names that the script gives its positions; else in the order in which they were given.
fn positions(parameters: &[Parameter], resolved: &Resolved) -> Result<Vec<String>, ScriptError> {
    let word = |name: &str| one(name, &resolved.arguments[name], resolved);
    if parameters.is_empty() {
        return resolved.ordered.iter().map(|name| word(name)).collect();
    }
    let known = || parameters.iter().map(|parameter| parameter.name.as_str()).collect::<Vec<_>>().join(", ");
    let is_known = |name: &String| parameters.iter().any(|parameter| parameter.name == *name);
    if let Some(name) = resolved.ordered.iter().find(|name| !is_known(name)) {
        return Err(ScriptError::UnknownArgument { name: crate::error::shown(name), known: known() });
    }
    let last = parameters
        .iter()
        .filter(|parameter| resolved.arguments.contains_key(&parameter.name))
        .map(|parameter| parameter.position)
        .max();
    if let Some(missing) = parameters
        .iter()
        .find(|parameter| !parameter.optional && !resolved.arguments.contains_key(&parameter.name))
    {
        return Err(ScriptError::MissingArgument { name: missing.name.clone(), known: known() });
    }
    (1..=last.unwrap_or(0))
        .map(|position| {
            let parameter = parameters.iter().find(|parameter| parameter.position == position);
            match parameter.filter(|parameter| resolved.arguments.contains_key(&parameter.name)) {
                Some(parameter) => word(&parameter.name),
                None => Ok("''".into()),
            }
        })
        .collect()
}

/// One word of shell: text as it is, anything else as JSON.
fn one(name: &str, value: &Value, resolved: &Resolved) -> Result<String, ScriptError> {
    let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    if let Some(variable) = resolved.placeholders.get(&place) {
        return Ok(format!("\"${variable}\""));
    }
    let inside = format!("{place}/");
    if let Some(bound) = resolved.placeholders.keys().find(|other| other.starts_with(&inside)) {
        let value = bound[inside.len()..].replace('/', ".");
        return Err(ScriptError::BoundInText { name: crate::error::shown(name), value });
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    Ok(format!("'{}'", text.replace('\0', "").replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::resolve;
    use crate::parse_arguments;
    use std::collections::BTreeMap;

    fn words(source: &str, arguments: &str) -> Result<Vec<String>, ScriptError> {
        let resolved = resolve(&parse_arguments(arguments)?, &BTreeMap::new())?;
        positions(&parameters(source), &resolved)
    }

    #[test]
    fn positions_have_the_names_that_the_script_gives_them() {
        let source = "# comment\nmsg=\"$1\"\nlocal count=${2:-3}\nrest=\"${3}\"\nx=$10\n";
        let names: Vec<_> =
            parameters(source).into_iter().map(|p| (p.name, p.position, p.optional)).collect();
        let expected = [("msg", 1, false), ("count", 2, true), ("rest", 3, false), ("x", 10, false)];
        assert_eq!(names, expected.map(|(name, position, optional)| (name.to_string(), position, optional)));
        let source = "msg=\"$1\"\ncount=${2:-3}\nlast=${3:-x}";
        assert_eq!(words(source, r#"{"last": "z", "msg": "it's"}"#).unwrap(), ["'it'\\''s'", "''", "'z'"]);
        assert_eq!(words(source, r#"{"msg": {"a": 1}}"#).unwrap(), ["'{\"a\":1}'"]);
        assert!(
            matches!(words(source, "{}"), Err(ScriptError::MissingArgument { name, .. }) if name == "msg")
        );
        assert!(matches!(
            words(source, r#"{"msg": 1, "mgs": 2}"#),
            Err(ScriptError::UnknownArgument { name, .. }) if name == "mgs"
        ));
    }

    #[test]
    fn without_names_the_order_counts() {
        assert_eq!(
            words("echo $1 $2", r#"{"z": "first", "a": 2, "n": null}"#).unwrap(),
            ["'first'", "'2'", "''"]
        );
    }
}
