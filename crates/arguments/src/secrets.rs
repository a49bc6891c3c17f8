//! Secrets, as flags.

use paddock_model::SecretLayer;

/// `NAME@HOST[,HOST...][=FROM]`: which variable stands for what is sent where, and where the value is read.
///
/// Without FROM it is the variable of this shell by the same name, so that no value stands in a command line.
pub fn secret(text: &str) -> Result<(String, SecretLayer), String> {
    let wrong = || {
        "write NAME@HOST[,HOST...], with =env:NAME or =file:PATH where it is not the variable NAME of this shell".to_string()
    };
    let (name, rest) = text.split_once('@').ok_or_else(wrong)?;
    let (hosts, from) = rest.split_once('=').map_or((rest, None), |(hosts, from)| (hosts, Some(from)));
    let from = match from {
        None => format!("env:{name}"),
        Some(from) => match from.split_once(':') {
            Some(("env", _)) => from.to_string(),
            Some(("file", path)) if !path.is_empty() => {
                let path = std::path::absolute(path).map_err(|error| error.to_string())?;
                format!("file:{}", path.display())
            }
            // Not shown: it may be the value itself.
            _ => return Err(wrong()),
        },
    };
    let hosts: Vec<String> = hosts.split(',').map(str::to_string).collect();
    if name.is_empty() || hosts.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok((name.to_string(), SecretLayer { from: Some(from), hosts, ..SecretLayer::default() }))
}

/// `NAME:HEADER`.
pub fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, header)) if !name.is_empty() && !header.trim().is_empty() => {
            Ok((name.to_string(), header.trim().to_string()))
        }
        _ => Err("write NAME:HEADER, with the name of a --secret, as in API_KEY:X-My-Key".to_string()),
    }
}

/// `NAME:HEADER=TEXT`, where TEXT has `{}` in the place of the value.
pub fn injected(text: &str) -> Result<(String, (String, String)), String> {
    let wrong = || {
        "write NAME:HEADER=TEXT, with the name of a --secret and `{}` for its value, as in API_KEY:Authorization='Bearer {}'".to_string()
    };
    let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (header, text) = rest.split_once('=').ok_or_else(wrong)?;
    match name.is_empty() || header.trim().is_empty() || text.matches("{}").count() != 1 {
        true => Err(wrong()),
        false => Ok((name.to_string(), (header.trim().to_string(), text.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_the_gate_sets() {
        let found = ("KEY".to_string(), ("Authorization".to_string(), "Bearer {}".to_string()));
        assert_eq!(injected("KEY:Authorization=Bearer {}"), Ok(found));
        for bad in ["KEY", "KEY:x", ":x={}", "KEY:={}", "KEY:x=value", "KEY:x={}{}"] {
            injected(bad).unwrap_err();
        }
    }

    #[test]
    fn a_header_of_a_secret() {
        assert_eq!(header("KEY:X-Mine"), Ok(("KEY".into(), "X-Mine".into())));
        for bad in ["KEY", ":x", "KEY:", "KEY: "] {
            header(bad).unwrap_err();
        }
    }

    #[test]
    fn names_hosts_and_where_the_value_is() {
        let (name, layer) = secret("KEY@a.example,*.b.example:8443").unwrap();
        assert_eq!((name.as_str(), layer.from.as_deref()), ("KEY", Some("env:KEY")));
        assert_eq!(layer.hosts, ["a.example", "*.b.example:8443"]);
        assert_eq!(secret("KEY@a.example=env:OTHER").unwrap().1.from.as_deref(), Some("env:OTHER"));
        let from = secret("KEY@a.example=file:key").unwrap().1.from.unwrap();
        assert!(from.starts_with("file:/") && from.ends_with("/key"));
        for bad in [
            "KEY",
            "@a.example",
            "KEY@",
            "KEY@a.example,",
            "KEY@a.example=sk-real-value",
            "KEY@a.example=file:",
        ] {
            assert!(!secret(bad).unwrap_err().contains("sk-real"), "{bad}");
        }
    }
}
