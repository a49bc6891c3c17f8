//! One line per event.

use super::{escape, time};
use paddock_model::api::Event;
use serde_json::Value;

pub fn line(event: &Event) -> String {
    let detail =
        event.detail.as_deref().map(|detail| format!("  {}", escape::line(detail))).unwrap_or_default();
    format!(
        "{}  {}  {}{detail}\n",
        time::utc(event.at_ms),
        escape::line(&event.sandbox),
        escape::line(&event.kind)
    )
}

/// An entry of the timeline: its number, time, actor, action, and the detail as it is. Hashes and signatures are for
/// programs, which ask for JSON.
pub fn audit(entry: &Value) -> String {
    let number = |name: &str| entry.get(name).and_then(Value::as_u64);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(escape::line).unwrap_or_default();
    let actor = entry.get("actor");
    let who = text(actor.and_then(|actor| actor.get("token")));
    let detail = entry.get("detail").map(brief).filter(|detail| !is_nothing(detail));
    let detail = detail.map(|detail| escape::line(&detail.to_string())).unwrap_or_default();
    let at = number("at_ms").map(time::utc).unwrap_or_default();
    format!("{:>5}  {at}  {who}  {}  {detail}\n", number("seq").unwrap_or(0), text(entry.get("kind")))
}

/// Leaves out empty values, and parses JSON in text: for people.
fn brief(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), brief(value)));
            Value::Object(fields.filter(|(_, value)| !is_nothing(value)).collect())
        }
        Value::String(text) if text.starts_with('{') || text == "null" => {
            serde_json::from_str(text).map_or_else(|_| value.clone(), |inner| brief(&inner))
        }
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_says_what_it_has_to_say() {
        let entry = json!({
            "seq": 3, "at_ms": 0, "actor": {"tenant": "t", "token": "owner"}, "kind": "call",
            "detail": {"operation": "create", "arguments": "{\"request\":{\"name\":null,\"ttl_seconds\":5,\"env\":[]}}"},
        });
        let line = audit(&entry);
        assert!(
            line.ends_with(
                "owner  call  {\"arguments\":{\"request\":{\"ttl_seconds\":5}},\"operation\":\"create\"}\n"
            ),
            "{line}"
        );
        let entry = json!({"seq": 4, "kind": "call", "detail": {"operation": "pause", "arguments": "null"}});
        assert!(audit(&entry).ends_with("call  {\"operation\":\"pause\"}\n"), "{}", audit(&entry));
        let entry = json!({"seq": 5, "kind": "exec", "detail": {"argv": ["{not json"]}});
        assert!(audit(&entry).contains("{not json"));
    }
}
