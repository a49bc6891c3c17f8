//! The connections of a sandbox, in lines. Names come from programs inside: none reaches a terminal unescaped.

use super::{escape, time};
use paddock_model::api::{NetworkDecision, NetworkView};
use paddock_model::format_bytes;

pub fn summary(view: &NetworkView) -> String {
    let rules = view.rules.as_ref().map_or_else(String::new, |rules| {
        let texts: Vec<String> = rules.allowed().map(ToString::to_string).collect();
        format!(" ({})", if texts.is_empty() { "nothing is allowed".into() } else { texts.join(", ") })
    });
    let bytes = |bytes: u64| if bytes == 0 { "nothing".to_string() } else { format_bytes(bytes) };
    format!(
        "network {}{rules}; {} sent, {} received, {} open\n",
        view.network,
        bytes(view.sent_bytes),
        bytes(view.received_bytes),
        view.connections
    )
}

pub fn line(decision: &NetworkDecision) -> String {
    let host = match (&decision.name, &decision.address) {
        (Some(name), _) => name.clone(),
        (None, Some(address)) if address.contains(':') => format!("[{address}]"),
        (None, Some(address)) => address.clone(),
        (None, None) => "-".to_string(),
    };
    let target = match decision.port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    let mut text = format!(
        "{}  {:<7}  {:<7}  {target}  {}",
        time::utc(decision.at_ms),
        decision.verdict,
        decision.way,
        decision.reason
    );
    if let (Some(sent), Some(received)) = (decision.sent_bytes, decision.received_bytes) {
        text.push_str(&format!(", {sent} B sent, {received} B received"));
    }
    if decision.count > 1 {
        text.push_str(&format!(", {} times", decision.count));
    }
    if let Some(advice) = &decision.advice {
        text.push_str(&format!("; {advice}"));
    }
    format!("{}\n", escape::line(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_says_how_to_allow_it_and_nothing_of_it_moves_the_cursor() {
        let decision = NetworkDecision {
            number: 1,
            at_ms: 0,
            way: "connect".into(),
            name: Some("evil.test".into()),
            address: None,
            port: Some(443),
            verdict: "denied".into(),
            reason: "no rule allows it\u{1b}[2J".into(),
            advice: Some("to allow it: --allow-net evil.test:443".into()),
            sent_bytes: None,
            received_bytes: None,
            count: 3,
        };
        let line = line(&decision);
        assert!(line.contains("denied   connect  evil.test:443  no rule allows it"), "{line}");
        assert!(line.contains(", 3 times; to allow it: --allow-net evil.test:443"), "{line}");
        assert!(!line.contains('\u{1b}'));
    }
}
