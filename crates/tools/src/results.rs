//! The result of a command or code, as a text for a model.

use crate::outputs::Outputs;
use paddock_model::api::{CodeResult, Exec, ExecCause};

const NO_OUTPUT: &str = "[no output; it ended well. Print what you want to see.]";
/// Findings of a scan that are told.
const MOST_FINDINGS: usize = 10;

pub fn failed(exec: &Exec) -> bool {
    exec.exit_code != Some(0) || exec.cause != Some(ExecCause::Exited)
}

/// The output of a command, and how it ended.
pub fn of_command(exec: &Exec, outputs: &mut Outputs) -> String {
    let mut parts = Vec::new();
    if !exec.stdout.is_empty() {
        parts.push(outputs.shown(&with_missing(&exec.stdout, exec.stdout_missing_bytes)));
    }
    if !exec.stderr.is_empty() {
        let shown = outputs.shown(&with_missing(&exec.stderr, exec.stderr_missing_bytes));
        parts.push(format!("[stderr]\n{shown}"));
    }
    match how_it_ended(exec) {
        Some(ended) => parts.push(ended),
        None if parts.is_empty() => parts.push(NO_OUTPUT.to_string()),
        None => {}
    }
    joined(parts)
}

/// The same for code that ran in a context, with its values besides its output.
pub fn of_code(exec: &Exec, outputs: &mut Outputs) -> String {
    let printed = of_command(exec, outputs);
    let values: Vec<String> = exec.results.iter().map(|result| outputs.shown(&value(result))).collect();
    let mut parts = Vec::new();
    if let Some(cause) = &exec.context_restarted {
        parts.push(format!("[the interpreter had ended ({}): its variables are gone]", in_words(cause)));
    }
    if values.is_empty() || printed != NO_OUTPUT {
        parts.push(printed);
    }
    parts.extend(values);
    if !exec.findings.is_empty() {
        let found: Vec<String> = exec.findings.iter().take(MOST_FINDINGS).map(ToString::to_string).collect();
        parts.push(
            outputs.shown(&format!("[the policy objects to parts of this code]\n{}", found.join("\n"))),
        );
    }
    joined(parts.into_iter().filter(|part| !part.is_empty()).collect())
}

fn joined(parts: Vec<String>) -> String {
    parts.iter().map(|part| part.trim_end_matches('\n')).collect::<Vec<_>>().join("\n")
}

/// The form of a value that a model can read.
fn value(result: &CodeResult) -> String {
    let pictures = [("png", &result.png), ("jpeg", &result.jpeg), ("svg", &result.svg), ("pdf", &result.pdf)];
    let named: Vec<&str> =
        pictures.iter().filter(|(_, picture)| picture.is_some()).map(|(name, _)| *name).collect();
    let pictures =
        if named.is_empty() { String::new() } else { format!("[and a picture: {}]", named.join(", ")) };
    let texts = [&result.text, &result.markdown, &result.latex, &result.html];
    let text = texts.into_iter().flatten().find(|text| !text.is_empty()).cloned().unwrap_or_default();
    [text, pictures].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn with_missing(text: &str, missing: u64) -> String {
    match missing {
        0 => text.to_string(),
        _ => format!("{text}\n[{missing} bytes in the middle of this were too many to keep]"),
    }
}

fn how_it_ended(exec: &Exec) -> Option<String> {
    if !failed(exec) {
        return None;
    }
    let code = exec.exit_code.map_or_else(|| "unknown".to_string(), |code| code.to_string());
    Some(match &exec.cause {
        _ if exec.timed_out => "[stopped: the time limit was reached]".to_string(),
        Some(ExecCause::Exited) => format!("[exit code {code}]"),
        Some(ExecCause::OutOfMemory) => "[killed: out of memory]".to_string(),
        Some(cause) => format!("[exit code {code}: {}]", in_words(cause)),
        None => format!("[exit code {code}: unknown]"),
    })
}

fn in_words(cause: &ExecCause) -> String {
    match cause {
        ExecCause::Exited => "exited".into(),
        ExecCause::Signaled { signal } => format!("signaled(signal={signal})"),
        ExecCause::TimeLimit { limit_ms } => format!("time_limit(limit_ms={limit_ms})"),
        ExecCause::OutOfMemory => "out_of_memory".into(),
        ExecCause::Killed => "killed".into(),
        ExecCause::NotStarted { detail } => format!("not_started(detail={detail})"),
        ExecCause::SandboxEnded => "sandbox_ended".into(),
    }
}
