//! The output of a call below its entry in the timeline.

use super::escape;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_model::api::{AuditOutput, AuditOutputState, AuditStream};

/// Each line begins with where it comes from.
pub fn text(output: &AuditOutput) -> String {
    let mut text = String::new();
    let mut line =
        |label: &str, words: &str| text.push_str(&format!("       {label:<8} {}\n", escape::line(words)));
    for (label, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        stream.iter().flat_map(lines).for_each(|words| line(label, &words));
    }
    for result in &output.results {
        // Text says most to a person; a result without text is shown as it is.
        let words = result.get("text").and_then(|text| text.as_str()).map(str::to_string);
        words.unwrap_or_else(|| result.to_string()).lines().for_each(|words| line("result", words));
    }
    if output.results_left_out > 0 {
        line("result", &format!("[{} more were left out]", output.results_left_out));
    }
    if let Some(error) = &output.error {
        line("error", &format!("{}: {}", error.name, error.value));
    }
    match (&output.problem, state(output.state)) {
        (Some(problem), _) => line("output", &format!("does not fit the timeline: {problem}")),
        (None, Some(words)) => line("output", words),
        (None, None) => {}
    }
    text
}

fn state(state: AuditOutputState) -> Option<&'static str> {
    match state {
        AuditOutputState::Kept | AuditOutputState::Nothing => None,
        AuditOutputState::Off => Some("was not kept: a policy or the server says so"),
        AuditOutputState::Full => Some("was not kept: the sandbox had printed more than is kept of one"),
        AuditOutputState::Failed => Some("could not be kept; the server's log says why"),
        AuditOutputState::Removed => Some("was removed to make room for newer ones"),
    }
}

fn lines(stream: &AuditStream) -> Vec<String> {
    let decoded =
        |part: &str| String::from_utf8_lossy(&STANDARD.decode(part).unwrap_or_default()).into_owned();
    let (first, last) = (decoded(&stream.first), decoded(&stream.last));
    if stream.left_out == 0 {
        return format!("{first}{last}").lines().map(str::to_string).collect();
    }
    let left_out = format!("[{} bytes were left out]", stream.left_out);
    first.lines().map(str::to_string).chain([left_out]).chain(last.lines().map(str::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> AuditOutput {
        serde_json::from_value(serde_json::json!({
            "seq": 3, "at_ms": 0, "exec": 1, "state": "kept", "verified": true,
            "stdout": { "bytes": 12, "sha256": "", "first": STANDARD.encode("a\u{1b}[2J\nb"), "left_out": 5, "last": STANDARD.encode("z\n") },
            "results": [{ "main": true, "text": "42" }, { "main": false, "png": { "bytes": 9 } }],
            "error": { "name": "ValueError", "value": "no", "traceback": "" },
        }))
        .unwrap()
    }

    #[test]
    fn each_line_says_where_it_comes_from_and_none_reaches_the_terminal_raw() {
        let text = text(&output());
        let shown: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(shown[1..3], ["stdout b", "stdout [5 bytes were left out]"]);
        assert_eq!(shown[3..5], ["stdout z", "result 42"]);
        assert!(shown[5].contains("png") && shown[6] == "error ValueError: no", "{shown:?}");
    }

    #[test]
    fn a_problem_is_told() {
        let changed = AuditOutput { problem: Some("it was cut off".into()), verified: false, ..output() };
        assert!(text(&changed).contains("does not fit the timeline: it was cut off"));
        let removed = AuditOutput { state: AuditOutputState::Removed, ..output() };
        assert!(text(&removed).contains("was removed"));
    }
}
