use super::*;
use crate::net::Target;

fn layer(json: serde_json::Value) -> NetLayer {
    serde_json::from_value(json).unwrap()
}

fn resolved(json: serde_json::Value) -> Result<NetRules, NetError> {
    let presets = |name: &str| match name {
        "models" => Some(vec!["api.one.example:443".to_string(), "api.two.example".to_string()]),
        "broken" => Some(vec!["https://x".to_string()]),
        "nested" => Some(vec!["preset:models".to_string()]),
        _ => None,
    };
    let opened = |rule: &Rule| matches!(&rule.target, Target::Name(name) if name.as_str() == "bound.example");
    layer(json).resolve(&presets, &opened)
}

#[test]
fn a_word_or_a_table() {
    let setting = |text: &str| serde_json::from_str::<NetSetting>(text).map_err(|error| error.to_string());
    assert_eq!(setting("\"host\"").unwrap(), NetSetting::Word("host".into()));
    let rules = setting(r#"{"allow": ["a.example"]}"#).unwrap();
    assert_eq!(rules, NetSetting::Rules(NetLayer { allow: vec!["a.example".into()], ..NetLayer::default() }));
    assert_eq!(serde_json::to_string(&rules).unwrap(), r#"{"allow":["a.example"]}"#);
    assert!(setting("3").unwrap_err().contains("`none`, `host` or a table"));
    assert!(setting(r#"{"allowed": []}"#).unwrap_err().contains("unknown field `allowed`"));
}

#[test]
fn layers_add_up_and_no_layer_takes_a_denial_back() {
    let below = layer(serde_json::json!({"allow": ["a.example"], "deny": ["b.example"], "rate": "1MiB"}));
    let above = layer(serde_json::json!({"allow": ["b.example"], "bytes": "1GiB", "rate": "2MiB"}));
    let merged = below.clone().overlaid_by(above);
    assert_eq!(merged.allow, ["a.example", "b.example"]);
    assert_eq!(merged.deny, ["b.example"]);
    assert_eq!((merged.rate.as_deref(), merged.bytes.as_deref()), (Some("2MiB"), Some("1GiB")));
    let word = NetSetting::Word("none".into());
    assert_eq!(NetSetting::Rules(below.clone()).overlaid_by(word.clone()), word);
    assert_eq!(word.overlaid_by(NetSetting::Rules(below.clone())), NetSetting::Rules(below));
}

#[test]
fn everything_that_can_be_written() {
    let rules = resolved(serde_json::json!({
        "allow": ["preset:models", "c.example:80"], "deny": ["*.c.example"],
        "rate": "10MiB", "bytes": "1GiB", "mode": "learn-deny",
    }))
    .unwrap();
    let texts: Vec<String> = rules.allow.iter().map(Rule::to_string).collect();
    assert_eq!(texts, ["api.one.example:443", "api.two.example", "c.example:80"]);
    assert_eq!((rules.rate, rules.bytes, rules.mode), (Some(10 << 20), Some(1 << 30), Mode::LearnDeny));
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<NetRules>(&json).unwrap(), rules);
}

#[test]
fn methods_only_where_they_can_be_seen() {
    let seen = resolved(serde_json::json!({"allow": ["a.example:80", "bound.example"], "methods": ["get"]}));
    assert_eq!(seen.unwrap().methods, Some(vec!["GET".to_string()]));
    for unseen in ["a.example", "a.example:443", "*", "1.0.0.0/8:*"] {
        let error = resolved(serde_json::json!({"allow": [unseen], "methods": ["GET"]})).unwrap_err();
        assert!(error.to_string().contains(unseen) && error.hint().is_some(), "{error}");
    }
}

#[test]
fn errors_name_the_value() {
    for (json, said) in [
        (serde_json::json!({"allow": ["https://x"]}), "`https://x` is a URL"),
        (serde_json::json!({"deny": ["a b"]}), "`a b`"),
        (serde_json::json!({"allow": ["preset:nope"]}), "no preset `nope`"),
        (serde_json::json!({"allow": ["preset:broken"]}), "preset `broken`: network rule `https://x`"),
        (serde_json::json!({"allow": ["preset:nested"]}), "preset `nested` has `preset:models` in it"),
        (serde_json::json!({"methods": ["GE T"]}), "`GE T` is no method"),
        (serde_json::json!({"methods": ["connect"]}), "`connect` is no method"),
        (serde_json::json!({"mode": "learn"}), "mode `learn` is not known"),
        (serde_json::json!({"rate": "fast"}), "`rate` of the network: `fast`"),
        (serde_json::json!({"bytes": "0"}), "`bytes` of the network: `0`"),
        (serde_json::json!({"allow": vec!["a.example"; 1025]}), "1024 are the most"),
    ] {
        let error = resolved(json).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}
