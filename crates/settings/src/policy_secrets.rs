//! `secrets` of a policy file: a table for each variable.

use crate::policy_file::{Entry, PolicyError, entries};
use paddock_model::{SecretLayer, SecretValue};
use std::collections::BTreeMap;

pub fn read(text: &str, entry: &Entry<'_>) -> Result<BTreeMap<String, SecretLayer>, PolicyError> {
    let mut secrets = BTreeMap::new();
    for secret in entries(text, "secrets.", entry.table("a table of secrets")?) {
        let mut layer = SecretLayer::default();
        for entry in entries(text, "secrets.NAME.", secret.table("a table with `from` and `hosts`")?) {
            match entry.key {
                "value" => layer.value = Some(SecretValue(entry.string()?)),
                "from" => layer.from = Some(entry.string()?),
                "hosts" => layer.hosts = entry.strings()?,
                "header" => layer.header = Some(entry.string()?),
                "headers" => layer.headers = entry.strings()?,
                "inject" => {
                    let table =
                        entry.table("a table of headers, such as { authorization = \"Bearer {}\" }")?;
                    for header in entries(text, "secrets.NAME.inject.", table) {
                        layer.inject.insert(header.key.to_string(), header.string()?);
                    }
                }
                _ => return Err(entry.unknown()),
            }
        }
        secrets.insert(secret.key.to_string(), layer);
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use crate::policy_file::parse;
    use paddock_model::SecretLayer;

    #[test]
    fn a_table_for_each() {
        let text = "[secrets.KEY]\nfrom = \"env:KEY\"\nhosts = [\"a.example\"]\nheader = \"authorization\"\nheaders = [\"x-more\"]\ninject = { x-own = \"Key {}\" }";
        let layer = SecretLayer {
            value: None,
            from: Some("env:KEY".into()),
            hosts: vec!["a.example".into()],
            header: Some("authorization".into()),
            headers: vec!["x-more".into()],
            inject: [("x-own".to_string(), "Key {}".to_string())].into(),
        };
        assert_eq!(parse(text).unwrap().secrets, [("KEY".to_string(), layer)].into());
        for (text, said) in [
            ("secrets = 3", "line 1: `secrets` has to be a table of secrets, but is a whole number"),
            (
                "[secrets.KEY]\nhost = []",
                "line 2: `secrets.NAME.host` is not a setting; did you mean `secrets.NAME.hosts`?",
            ),
            (
                "[secrets]\nKEY = \"x\"",
                "line 2: `secrets.KEY` has to be a table with `from` and `hosts`, but is a string",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), said);
        }
    }
}
