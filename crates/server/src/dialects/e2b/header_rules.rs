//! `network.rules`: headers that the gate sets in requests to a host. Each becomes a secret of the sandbox that is bound to this host
//! and that the gate injects, so that no value enters the sandbox.

use super::errors::{Refusal, Result};
use crate::errors::shorten;
use paddock_fleet::SecretGroup;
use paddock_model::{SecretLayer, SecretValue};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// By host, in the order in which they are applied: of two for one header, the later counts.
pub type HeaderRules = BTreeMap<String, Vec<HeaderRule>>;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    #[serde(default)]
    transform: Option<Transform>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transform {
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
}

/// The secrets of a sandbox that stand for its rules.
const NAMES: &str = "E2B_RULE_";
/// Of `Secret.fill` and of a workload token.
const SECRET: &str = "${e2b.secrets.";
const TOKEN: &str = "${e2b.identity.";

/// The secrets that stand for these rules.
pub fn secrets(rules: &HeaderRules) -> Result<BTreeMap<String, SecretLayer>> {
    let mut secrets = BTreeMap::new();
    for (host, rules) in rules {
        let mut headers = BTreeMap::new();
        for transform in rules.iter().filter_map(|rule| rule.transform.as_ref()) {
            let named = transform.headers.iter().flatten();
            headers.extend(named.map(|(header, text)| (header.to_ascii_lowercase(), text)));
        }
        for (header, text) in headers {
            let name = format!("{NAMES}{}", secrets.len() + 1);
            secrets.insert(name, secret(host, &header, text)?);
        }
    }
    Ok(secrets)
}

/// In the place of the rules that a sandbox has: those that are left out are cleared.
pub fn instead(secrets: BTreeMap<String, SecretLayer>) -> SecretGroup {
    SecretGroup { prefix: NAMES, secrets }
}

/// Hosts with a header of their own.
pub fn hosts(rules: &HeaderRules) -> impl Iterator<Item = &String> {
    let sets = |rule: &HeaderRule| {
        rule.transform.as_ref().is_some_and(|t| t.headers.iter().flatten().next().is_some())
    };
    rules.iter().filter(move |(_, rules)| rules.iter().any(sets)).map(|(host, _)| host)
}

/// The rules without values of headers. The name of a secret is none.
pub fn shown(rules: &HeaderRules) -> Value {
    let value = |text: &String| {
        let (_, rest) = text.split_once(SECRET)?;
        let (name, _) = rest.split_once('}')?;
        Some(json!(format!("{SECRET}{name}}}")))
    };
    let value = |text: &String| value(text).unwrap_or_else(|| json!("(not shown)"));
    let rule =
        |rule: &HeaderRule| match rule.transform.as_ref().and_then(|transform| transform.headers.as_ref()) {
            Some(headers) => {
                let headers: BTreeMap<&String, Value> =
                    headers.iter().map(|(name, text)| (name, value(text))).collect();
                json!({ "transform": { "headers": headers } })
            }
            None => json!({}),
        };
    let all: BTreeMap<&String, Vec<Value>> =
        rules.iter().map(|(host, of_host)| (host, of_host.iter().map(rule).collect())).collect();
    json!(all)
}

fn secret(host: &str, header: &str, text: &str) -> Result<SecretLayer> {
    let wrong = |why: &str| {
        let (header, host) = (shorten(header), shorten(host));
        Refusal::invalid(format!("network.rules: header {header:?} for {host:?} {why}"))
    };
    if text.contains(TOKEN) {
        return Err(wrong(
            "wants a workload token, and this server issues none: use a secret, Secret.fill(NAME)",
        ));
    }
    let layer = SecretLayer { hosts: vec![host.to_string()], ..SecretLayer::default() };
    let Some((before, rest)) = text.split_once(SECRET) else {
        // The value may be a key that was written out, so that it is kept like one.
        if text.len() < 8 {
            return Err(wrong("has fewer than 8 characters: the program inside can send it itself"));
        }
        let inject = [(header.to_string(), "{}".to_string())].into();
        return Ok(SecretLayer { value: Some(SecretValue(text.to_string())), inject, ..layer });
    };
    let (name, after) = rest.split_once('}').ok_or_else(|| wrong("has a placeholder without an end"))?;
    if after.contains(SECRET) || before.contains("{}") || after.contains("{}") {
        return Err(wrong("has more than one place for a secret, and one is possible"));
    }
    let inject = [(header.to_string(), format!("{before}{{}}{after}"))].into();
    Ok(SecretLayer { from: Some(format!("secret:{name}")), inject, ..layer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn made(rules: Value) -> Result<BTreeMap<String, SecretLayer>> {
        secrets(&from_value(rules).expect("rules"))
    }

    #[test]
    fn a_header_becomes_a_secret_that_the_gate_injects() {
        let rules = json!({
            "api.example.com": [
                { "transform": { "headers": { "Authorization": "Bearer old-and-long", "X-Team": "team-of-agents" } } },
                { "transform": { "headers": { "authorization": "Bearer ${e2b.secrets.openai-key}" } } },
                {},
            ],
            "bare.example.com": [{}],
        });
        let parsed: HeaderRules = from_value(rules.clone()).expect("rules");
        assert_eq!(hosts(&parsed).collect::<Vec<_>>(), ["api.example.com"]);
        let made = made(rules).expect("secrets");
        assert_eq!(made.len(), 2);
        let first = &made["E2B_RULE_1"];
        assert_eq!(first.from.as_deref(), Some("secret:openai-key"));
        assert_eq!(first.inject, [("authorization".to_string(), "Bearer {}".to_string())].into());
        assert_eq!(first.hosts, ["api.example.com"]);
        let second = &made["E2B_RULE_2"];
        assert_eq!(second.value, Some(SecretValue("team-of-agents".into())));
        assert_eq!(second.inject, [("x-team".to_string(), "{}".to_string())].into());
    }

    #[test]
    fn what_the_gate_cannot_set_is_refused_by_its_name() {
        for (text, word) in [
            ("Bearer ${e2b.identity.tokens.aws}", "workload"),
            ("short", "8 characters"),
            ("${e2b.secrets.open", "end"),
            ("${e2b.secrets.a}${e2b.secrets.b}", "more than one"),
            ("{} ${e2b.secrets.a}", "more than one"),
        ] {
            let refused = made(json!({ "a.example": [{ "transform": { "headers": { "X-Own": text } } }] }));
            let message = refused.expect_err(text).message();
            assert!(
                message.contains(word) && message.contains("x-own") && message.contains("a.example"),
                "{message}"
            );
        }
        for unknown in [
            json!({ "a.example": [{ "rewrite": {} }] }),
            json!({ "a.example": [{ "transform": { "body": "x" } }] }),
        ] {
            assert!(from_value::<HeaderRules>(unknown.clone()).is_err(), "{unknown}");
        }
    }
}
