//! Tools about the sandboxes of a session themselves.

use crate::session::Session;
use paddock_tools::{Answer, BadCall, Host, OperationError};
use serde_json::{Map, Value, json};

/// Name, action, its parameters with their descriptions, and true if it only reads.
type Entry = (&'static str, &'static str, &'static [(&'static str, &'static str)], bool);

const SANDBOX: (&str, &str) =
    ("sandbox", "The id of a sandbox of this session. Default: the one that calls use anyway.");

const TOOLS: [Entry; 5] = [
    (
        "create_sandbox",
        "Make a further sandbox beside the one that this session has anyway, and get its id. Hand that id to the other \
         tools as `sandbox`. It ends with the session.",
        &[("snapshot", "The id of a snapshot of this session to begin with. Default: a fresh sandbox.")],
        false,
    ),
    (
        "list_sandboxes",
        "List the sandboxes of this session, and which one calls use that name none.",
        &[],
        true,
    ),
    (
        "kill_sandbox",
        "End a sandbox with all that runs and all files in it. The next call that names none gets a new one.",
        &[SANDBOX],
        false,
    ),
    (
        "fork_sandbox",
        "Make a copy of a sandbox as it is now, its files included, and get the copy's id: to try something that may go \
         wrong. The original goes on untouched.",
        &[SANDBOX],
        false,
    ),
    (
        "snapshot_sandbox",
        "Keep the files of a sandbox as they are now, and get the id of the snapshot for create_sandbox. It goes with the \
         session.",
        &[SANDBOX],
        false,
    ),
];

/// The parameter by which the other tools are told which sandbox is meant.
pub fn sandbox_parameter() -> Value {
    json!({"type": "string", "description": SANDBOX.1})
}

/// In MCP's shape.
pub fn definitions() -> impl Iterator<Item = Value> {
    TOOLS.iter().map(|(name, description, parameters, reads)| {
        let properties: Map<String, Value> = parameters
            .iter()
            .map(|(name, description)| (name.to_string(), json!({"type": "string", "description": description})))
            .collect();
        json!({
            "name": name, "description": description, "annotations": {"readOnlyHint": reads},
            "inputSchema": {"type": "object", "properties": properties, "required": [], "additionalProperties": false},
        })
    })
}

pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, ..)| *name)
}

/// `None` if it is no tool of these.
pub async fn call<H: Host>(
    session: &Session<H>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Option<Answer> {
    let (_, _, parameters, _) = TOOLS.iter().find(|(name, ..)| *name == tool)?;
    let known: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
    Some(match check(tool, arguments, &known) {
        Err(error) => Answer::error(error.0),
        Ok(()) => match answer(session, tool, arguments).await {
            Ok(text) => Answer { text, ..Answer::default() },
            Err(error) => Answer { sandbox_is_gone: false, ..Answer::error(error.told()) },
        },
    })
}

async fn answer<H: Host>(
    session: &Session<H>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<String, OperationError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    match tool {
        "create_sandbox" => {
            let made = session.make(text("snapshot").map(str::to_string)).await?;
            Ok(format!("[made the sandbox {}]", made.id))
        }
        "list_sandboxes" => Ok(listed(session)),
        "kill_sandbox" => Ok(format!("[ended the sandbox {}]", session.kill(text("sandbox")).await?)),
        "fork_sandbox" => {
            let made = session.fork(text("sandbox")).await?;
            Ok(format!("[made the sandbox {} as a copy]", made.id))
        }
        _ => {
            let made = session.snapshot(text("sandbox"), None).await?;
            Ok(format!("[made the snapshot {} of the sandbox {}]", made.id, made.sandbox))
        }
    }
}

fn listed<H: Host>(session: &Session<H>) -> String {
    let (mut all, own) = session.list();
    if let Some(own) = own.iter().find(|own| !all.contains(own)) {
        all.push(own.clone());
    }
    if all.is_empty() {
        return "[no sandbox yet; the first call that needs one makes it]".into();
    }
    let line = |id: &String| match own.as_ref() == Some(id) {
        true => format!("{id} (calls use it that name none)"),
        false => id.clone(),
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(tool: &str, arguments: &Map<String, Value>, known: &[&str]) -> Result<(), BadCall> {
    for (name, value) in arguments {
        if !known.contains(&name.as_str()) {
            let name: String = name.chars().take(80).collect();
            let takes = if known.is_empty() { "nothing".to_string() } else { known.join(", ") };
            return Err(BadCall(format!(
                "{tool} has no argument '{}'; it takes {takes}",
                name.escape_debug()
            )));
        }
        if !value.is_string() && !value.is_null() {
            let shown: String = value.to_string().chars().take(80).collect();
            return Err(BadCall(format!("{name} of {tool} is {shown}, not of type string")));
        }
    }
    Ok(())
}
