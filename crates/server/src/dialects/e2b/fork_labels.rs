//! What the dialect knows of a sandbox goes along into its forks: the name of the template, the user, whether it resumes by itself, and
//! its network as it was described.

use super::labels::{AUTO_RESUME_LABEL, NETWORK_LABEL, ShownNetwork, TEMPLATE_LABEL, USER_LABEL};
use std::collections::BTreeMap;

/// Labels that give nobody a right.
const DESCRIPTIONS: [&str; 3] = [TEMPLATE_LABEL, USER_LABEL, AUTO_RESUME_LABEL];

/// The labels of a fork. `metadata`: that of its source.
pub fn of(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let named = |name: &str| Some((name.to_string(), metadata.get(name)?.clone()));
    let network = metadata.get(NETWORK_LABEL).and_then(|text| network(text));
    let network = network.map(|text| (NETWORK_LABEL.to_string(), text));
    DESCRIPTIONS.into_iter().filter_map(named).chain(network).collect()
}

/// A fork has the rules for addresses and names, and no header rules: these are secrets.
fn network(text: &str) -> Option<String> {
    let mut shown: ShownNetwork = serde_json::from_str(text).ok()?;
    if let Some(network) = shown.network.as_object_mut() {
        network.remove("rules");
    }
    serde_json::to_string(&shown).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_fork_has_the_descriptions_and_no_secrets() {
        let network =
            json!({ "internet": null, "network": { "denyOut": ["9.9.9.9"], "rules": { "a.example": [] } } });
        let network = network.to_string();
        let metadata: BTreeMap<String, String> = [
            (TEMPLATE_LABEL, "my-app"),
            (USER_LABEL, "user"),
            (AUTO_RESUME_LABEL, "true"),
            (NETWORK_LABEL, network.as_str()),
            ("paddock.job", "job-1"),
            ("paddock.of-later", "x"),
            ("flavour", "a"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into();
        let mut labels = of(&metadata);
        let shown = labels.remove(NETWORK_LABEL).expect("a description");
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(shown, json!({ "internet": null, "network": { "denyOut": ["9.9.9.9"] } }));
        assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), {
            let mut sorted = DESCRIPTIONS;
            sorted.sort_unstable();
            sorted
        });
        assert!(of(&BTreeMap::new()).is_empty());
    }
}
