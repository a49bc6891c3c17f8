//! `ports` of a policy file: which of them answer everybody, and the host that programs are asked as.

use crate::policy_file::{Entry, PolicyError, entries};
use paddock_model::{PortSettings, PublicPorts};
use toml::de::DeValue;

pub fn read(text: &str, entry: &Entry<'_>) -> Result<PortSettings, PolicyError> {
    let mut ports = PortSettings::default();
    for entry in entries(text, "ports.", entry.table("a table with `public` and `request_host`")?) {
        match entry.key {
            "public" => ports.public = Some(public(&entry)?),
            "request_host" => ports.request_host = Some(entry.string()?),
            _ => return Err(entry.unknown()),
        }
    }
    Ok(ports)
}

fn public(entry: &Entry<'_>) -> Result<PublicPorts, PolicyError> {
    let expected = "`all` or a list of numbers of ports";
    let items = match entry.value.get_ref() {
        DeValue::String(word) => return Ok(PublicPorts::Word(word.to_string())),
        DeValue::Array(items) => items,
        other => return Err(entry.wrong_type(expected, other, entry.value.span().start)),
    };
    let mut numbers = Vec::new();
    for item in items {
        let number = match item.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        numbers.push(number.ok_or_else(|| entry.wrong_type(expected, item.get_ref(), item.span().start))?);
    }
    Ok(PublicPorts::Numbers(numbers))
}

#[cfg(test)]
mod tests {
    use crate::policy_file::parse;
    use paddock_model::{PortSettings, PublicPorts};

    #[test]
    fn numbers_or_all_and_a_host() {
        let ports = |text: &str| parse(text).map(|policy| policy.ports).map_err(|error| error.to_string());
        let text = "[ports]\npublic = [3000, 0x50]\nrequest_host = \"app.example:${PORT}\"";
        let both = PortSettings {
            public: Some(PublicPorts::Numbers(vec![3000, 80])),
            request_host: Some("app.example:${PORT}".into()),
        };
        assert_eq!(ports(text).unwrap(), both);
        assert_eq!(ports("ports = { public = \"all\" }").unwrap().public, Some(PublicPorts::all()));
        assert_eq!(ports("ports = { public = [] }").unwrap().public, Some(PublicPorts::none()));
        for (text, said) in [
            (
                "ports = 3",
                "line 1: `ports` has to be a table with `public` and `request_host`, but is a whole number",
            ),
            (
                "ports = { publik = [] }",
                "line 1: `ports.publik` is not a setting; did you mean `ports.public`?",
            ),
            (
                "[ports]\npublic = true",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is true or false",
            ),
            (
                "[ports]\npublic = [80, \"443\"]",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is a string",
            ),
            (
                "[ports]\npublic = [-1]",
                "line 2: `ports.public` has to be `all` or a list of numbers of ports, but is a whole number",
            ),
            (
                "[ports]\nzzzzzzzzzz = 1",
                "line 2: `ports.zzzzzzzzzz` is not a setting; known are public, request_host",
            ),
        ] {
            assert_eq!(ports(text).unwrap_err(), said);
        }
    }
}
