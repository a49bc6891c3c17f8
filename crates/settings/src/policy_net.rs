//! `net` of a policy file: a word, or a table of rules.

use crate::policy_file::{Entry, PolicyError, entries};
use paddock_model::net::{NetLayer, NetSetting};
use toml::de::DeValue;

pub fn read(text: &str, entry: &Entry<'_>) -> Result<NetSetting, PolicyError> {
    let table = match entry.value.get_ref() {
        DeValue::String(word) => return Ok(NetSetting::Word(word.to_string())),
        DeValue::Table(table) => table,
        other => {
            let expected = "a string or a table of rules";
            return Err(entry.wrong_type(expected, other, entry.value.span().start));
        }
    };
    let mut layer = NetLayer::default();
    for entry in entries(text, "net.", table) {
        match entry.key {
            "allow" => layer.allow = entry.strings()?,
            "allow_public" => layer.allow_public = entry.strings()?,
            "deny" => layer.deny = entry.strings()?,
            "methods" => layer.methods = entry.strings()?,
            "rate" => layer.rate = Some(entry.quantity()?),
            "bytes" => layer.bytes = Some(entry.quantity()?),
            "mode" => layer.mode = Some(entry.string()?),
            _ => return Err(entry.unknown()),
        }
    }
    Ok(NetSetting::Rules(layer))
}

#[cfg(test)]
mod tests {
    use crate::policy_file::parse;
    use paddock_model::net::{NetLayer, NetSetting};

    #[test]
    fn a_word_or_rules() {
        let net =
            |text: &str| parse(text).map(|policy| policy.net.unwrap()).map_err(|error| error.to_string());
        assert_eq!(net("net = \"host\"").unwrap(), NetSetting::Word("host".into()));
        let text = "[net]\nallow = [\"a.example\"]\nallow_public = [\"c.example\"]\ndeny = [\"b.example\"]\nmethods = [\"GET\"]\nrate = \"1MiB\"\nbytes = 5\nmode = \"enforce\"";
        let layer = NetLayer {
            allow: vec!["a.example".into()],
            allow_public: vec!["c.example".into()],
            deny: vec!["b.example".into()],
            methods: vec!["GET".into()],
            rate: Some("1MiB".into()),
            bytes: Some("5".into()),
            mode: Some("enforce".into()),
        };
        assert_eq!(net(text).unwrap(), NetSetting::Rules(layer));
        for (text, said) in [
            ("net = 3", "line 1: `net` has to be a string or a table of rules, but is a whole number"),
            ("net = { alow = [] }", "line 1: `net.alow` is not a setting; did you mean `net.allow`?"),
            ("[net]\nallow = \"x\"", "line 2: `net.allow` has to be a list of strings, but is a string"),
        ] {
            assert_eq!(net(text).unwrap_err(), said);
        }
    }
}
