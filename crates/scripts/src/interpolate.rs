//! Names of volumes that hold `$workspace` and `$args[...]`. An empty argument is an error and no empty text: two
//! callers would find themselves in one volume.

use crate::annotation::AnnotationError;
use crate::arguments::Arguments;
use serde_json::Value;

pub fn volume_name(written: &str, arguments: &Arguments, workspace: &str) -> Result<String, AnnotationError> {
    let mut name = String::new();
    let mut rest = written;
    while let Some(at) = rest.find('$') {
        name.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$workspace") {
            name.push_str(workspace);
            rest = after;
            continue;
        }
        let dollar = || AnnotationError::Dollar(crate::error::shown(written));
        let inner = rest.strip_prefix("$args[").ok_or_else(dollar)?;
        let (path, after) = inner.split_once(']').ok_or_else(dollar)?;
        let word = |step: &str| {
            !step.is_empty() && step.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        if !path.split('.').all(word) {
            return Err(dollar());
        }
        let value = text(path, arguments).map_err(|problem| AnnotationError::Interpolation {
            name: crate::error::shown(written),
            argument: path.to_string(),
            problem,
        })?;
        name.push_str(value.trim_matches('"'));
        rest = after;
    }
    name.push_str(rest);
    Ok(name)
}

/// Dotted paths walk objects.
fn text(path: &str, arguments: &Arguments) -> Result<String, &'static str> {
    let mut steps = path.split('.');
    let first = steps.next().and_then(|step| arguments.get(step));
    let found = steps.fold(first, |inside, step| inside?.as_object()?.get(step));
    match found {
        Some(Value::String(text)) if text.trim_matches('"').is_empty() => Err("is empty"),
        // The value of a reference must not be seen in a name.
        Some(Value::String(text)) if text.starts_with("$res:") || text.starts_with("$var:") => {
            Err("is a reference to a resource")
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(flag)) => Ok(flag.to_string()),
        Some(_) => Err("is neither text nor a number"),
        None => Err("is not given"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_arguments;

    #[test]
    fn names_are_filled_in_from_workspace_and_arguments() {
        let arguments = parse_arguments(
            r#"{"user": "ada", "n": 7, "o": {"in": {"x": "\"q\""}}, "e": "", "l": [1], "r": "$res:x", "d": "$workspace"}"#,
        )
        .unwrap();
        let fill = |name| volume_name(name, &arguments, "team-a");
        assert_eq!(fill("plain").unwrap(), "plain");
        assert_eq!(fill("$workspace-$args[user]-$args[n]-$args[o.in.x]").unwrap(), "team-a-ada-7-q");
        // Text from an argument is not interpolated again.
        assert_eq!(fill("x-$args[d]").unwrap(), "x-$workspace");
        for (name, words) in [
            ("a-$args[nobody]", "is not given"),
            ("a-$args[user.name]", "is not given"),
            ("a-$args[e]", "is empty"),
            ("a-$args[l]", "neither text nor a number"),
            ("a-$args[o]", "neither text nor a number"),
            ("a-$args[r]", "reference to a resource"),
            ("a-$args[", "neither $workspace"),
            ("a-$args[]", "neither $workspace"),
            ("a-$args[a b]", "neither $workspace"),
            ("a-$args[.a]", "neither $workspace"),
            ("a-$user", "neither $workspace"),
            ("$", "neither $workspace"),
        ] {
            let said = fill(name).unwrap_err().to_string();
            assert!(said.contains(words), "{name}: {said}");
        }
    }
}
