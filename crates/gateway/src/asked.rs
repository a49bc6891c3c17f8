//! The words of a create about its place: in its body, and in headers that are the gateway's alone.

use crate::placement::Wanted;
use axum::http::{HeaderMap, HeaderValue};
use paddock_model::NodeNumber;
use paddock_server::front::Failure;
use serde_json::Value;

const NODE: &str = "paddock-node";
const LABEL: &str = "paddock-node-label";

/// The words in which the request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Own,
    E2b,
}

/// The part of the body that decides about the place. A body that is not valid says nothing, and the node that gets it refuses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub name: Option<String>,
    pub template: Option<String>,
    pub snapshot: Option<String>,
    pub backend: Option<String>,
    pub require: Vec<String>,
    pub has_volumes: bool,
}

impl Asked {
    pub fn read(words: Words, body: &[u8]) -> Asked {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |field: &str| body[field].as_str().map(str::to_string);
        let texts = |field: &str| {
            let all = body[field].as_array().into_iter().flatten();
            all.filter_map(|one| one.as_str().map(str::to_string)).collect()
        };
        let filled = |field: &str| body[field].as_array().is_some_and(|list| !list.is_empty());
        match words {
            Words::Own => Asked {
                name: text("name"),
                template: text("template"),
                snapshot: text("snapshot"),
                backend: text("backend"),
                require: texts("require"),
                has_volumes: filled("volumes"),
            },
            Words::E2b => Asked {
                template: text("templateID"),
                has_volumes: filled("volumeMounts"),
                ..Asked::default()
            },
        }
    }
}

/// The headers Paddock-Node and Paddock-Node-Label.
pub fn place_in_headers(headers: &HeaderMap) -> Result<Wanted, Failure> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().trim().to_string();
    let node = headers.get(NODE).map(|value| {
        text(value)
            .parse::<NodeNumber>()
            .map_err(|error| Failure::invalid(format!("the header Paddock-Node is not valid: {error}")))
    });
    let labels = headers.get_all(LABEL).iter().map(|value| {
        let text = text(value);
        let pair = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
        pair.ok_or_else(|| Failure::invalid("the header Paddock-Node-Label is not of the form key=value"))
    });
    Ok(Wanted { node: node.transpose()?, labels: labels.collect::<Result<_, _>>()?, ..Wanted::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_where_it_can_be() {
        let asked = Asked::read(
            Words::Own,
            br#"{"name":"a","template":"t","snapshot":"sn-1","backend":"gvisor","require":["seccomp"],"volumes":[{"name":"v"}]}"#,
        );
        assert_eq!(asked.name.as_deref(), Some("a"));
        assert_eq!(asked.snapshot.as_deref(), Some("sn-1"));
        assert!(asked.has_volumes && asked.require == ["seccomp"]);
        let asked = Asked::read(Words::E2b, br#"{"templateID":"base","volumeMounts":[]}"#);
        assert_eq!(asked, Asked { template: Some("base".into()), ..Asked::default() });
        for nonsense in ["", "[]", "null", "{", r#"{"name":1,"volumes":{}}"#] {
            assert_eq!(Asked::read(Words::Own, nonsense.as_bytes()), Asked::default(), "{nonsense}");
        }
    }

    #[test]
    fn a_place_is_asked_for_by_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(NODE, HeaderValue::from_static("7"));
        headers.append(LABEL, HeaderValue::from_static("zone=b"));
        headers.append(LABEL, HeaderValue::from_static("gpu=a=b"));
        let wanted = place_in_headers(&headers).expect("valid");
        assert_eq!(wanted.node.map(NodeNumber::get), Some(7));
        assert_eq!(wanted.labels[1], ("gpu".to_string(), "a=b".to_string()));
        for (name, value) in [(NODE, "4096"), (NODE, ""), (LABEL, "zone")] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert!(place_in_headers(&headers).is_err(), "{name}: {value}");
        }
    }
}
