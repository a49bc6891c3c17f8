//! The result of a script, for a person and for a program.

use crate::args::EXIT_PADDOCK_FAILED;
use crate::caller::Caller;
use crate::commands::{CommandError, print, print_json};
use crate::once::unstored;
use crate::render;
use paddock_model::api::{Exec, ExecCause, MountedVolume, Sandbox};
use paddock_scripts::{Annotations, Failure, Language};
use serde::Serialize;
use serde_json::Value;

/// A script that has ended, and its sandbox.
pub struct Ran {
    pub exec: Exec,
    pub result: Result<Value, Failure>,
    pub sandbox: Sandbox,
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    exit_code: i32,
    cause: &'a Option<ExecCause>,
    stdout: &'a str,
    stderr: &'a str,
    sandbox: &'a str,
    volumes: &'a [MountedVolume],
}

impl Ran {
    /// Returns the exit code.
    pub fn tell(&self, json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
        let code = self.code();
        if json {
            let told = Told {
                result: self.result.as_ref().ok(),
                error: self.result.as_ref().err(),
                exit_code: code,
                cause: &self.exec.cause,
                stdout: &self.exec.stdout,
                stderr: &self.exec.stderr,
                sandbox: &self.sandbox.id,
                volumes: &self.sandbox.volumes,
            };
            print_json(&told, caller)?;
            return Ok(code);
        }
        match &self.result {
            Ok(value) => print(&format!("{}\n", serde_json::to_string(value)?), caller)?,
            Err(failure) => self.tell_failure(failure, caller),
        }
        for (volume, outcome) in unstored(&self.sandbox.volumes) {
            let (name, outcome) = (render::escape::line(&volume.name), render::escape::line(outcome));
            let _ = writeln!(caller.stderr, "paddock: volume `{name}`: {outcome}");
        }
        Ok(code)
    }

    fn tell_failure(&self, failure: &Failure, caller: &mut Caller) {
        // The wrapper was not started, and its text would not help the reader.
        let remark = match failure.code.as_str() {
            "interpreter_missing" => None,
            _ => render::execs::remark(&self.exec, Some(&self.sandbox)),
        };
        // The interpreter's own message stands above already, with a traceback.
        let words = match (remark, failure.code.as_str()) {
            (Some(remark), _) => remark,
            (None, "script_failed") if failure.name.is_some() => return,
            (None, _) => failure.message.clone(),
        };
        let _ = writeln!(caller.stderr, "paddock: {}", render::escape::line(&words));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(caller.stderr, "hint: {}", render::escape::line(hint));
        }
    }

    fn code(&self) -> i32 {
        let stored = unstored(&self.sandbox.volumes).next().is_none();
        match (&self.result, self.exec.exit_code) {
            (Ok(_), _) if stored => 0,
            (Ok(_), _) => EXIT_PADDOCK_FAILED,
            (Err(_), Some(0)) => 1,
            (Err(_), code) => code.unwrap_or(EXIT_PADDOCK_FAILED),
        }
    }
}

/// The requests of a script's header.
pub fn checked(
    language: Language,
    found: &Annotations,
    json: bool,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    if json {
        let mut value = serde_json::to_value(found)?;
        value["language"] = language.name().into();
        return print_json(&value, caller);
    }
    let mut lines = vec![format!("language  {language}")];
    lines.push(format!("sandbox   {}", found.image.as_deref().unwrap_or("of the template")));
    let volumes = found.volumes.iter();
    lines.extend(volumes.map(|volume| format!("volume    {} at {}", volume.name, volume.target)));
    match &found.net {
        Some(rules) if !rules.is_empty() => lines.push(format!("net       {}", rules.join(", "))),
        _ => lines.push("net       none".into()),
    }
    let secrets = found.secrets.iter();
    lines.extend(
        secrets.map(|secret| format!("secret    {} for {}", secret.variable, secret.hosts.join(", "))),
    );
    let limits = [
        found.timeout.map(|timeout| ("timeout", paddock_model::format_duration(timeout))),
        found.memory.map(|memory| ("memory", paddock_model::format_bytes(memory))),
        found.cpus.map(|cpus| ("cpus", cpus.to_string())),
        found.backend.clone().map(|backend| ("backend", backend)),
        (!found.require.is_empty()).then(|| ("require", found.require.join(", "))),
    ];
    lines.extend(limits.into_iter().flatten().map(|(key, value)| format!("{key:<9} {value}")));
    let text: String = lines.iter().map(|line| format!("{}\n", render::escape::line(line))).collect();
    print(&text, caller)
}
