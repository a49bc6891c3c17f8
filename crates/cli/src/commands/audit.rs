//! `paddock audit`: the signed timeline of a sandbox.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::watch::AuditAction;
use crate::caller::Caller;
use crate::client::{Call, ClientError, Lines, Target};
use crate::{render, state};
use paddock_model::api::AuditOutput;
use paddock_records::audit::{PublicKey, Verdict};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub fn execute(action: AuditAction, caller: &mut Caller) -> Result<i32, CommandError> {
    match action {
        AuditAction::Show { id, json, outputs } => show(&id, json, outputs, caller),
        AuditAction::Verify { file, key, json } => verify(&file, key.as_deref(), json, caller),
        AuditAction::Export { id, output } => export(&id, output, caller),
    }
}

fn show(id: &str, json: bool, outputs: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        // Before the timeline: an output that comes after this waits for the next time.
        let mut outputs = match outputs {
            true => {
                Some(client.send(Call::get(Target::sandbox(id).part("audit").part("outputs"))).await?.lines())
            }
            false => None,
        };
        let mut next = following(&mut outputs).await?;
        let answer = client.send(Call::get(Target::sandbox(id).part("audit"))).await?;
        let damage = answer.damage();
        let mut lines = answer.lines();
        loop {
            let record = match lines.next::<serde_json::Value>().await {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // A line that was cut off is where it ends for a reader.
                Err(ClientError::Unexpected(_)) if damage.is_some() => break,
                Err(error) => return Err(error.into()),
            };
            // The head is for a program that verifies an export.
            if record.get("head").is_some() {
                continue;
            }
            match json {
                true => print(&render::json::line(&record)?, caller)?,
                false => print(&render::events::audit(&record), caller)?,
            }
            let Some(output) = next.take_if(|output| record["seq"] == output.seq) else { continue };
            match json {
                true => print(&render::json::line(&serde_json::json!({ "output": output }))?, caller)?,
                false => print(&render::outputs::text(&output), caller)?,
            }
            next = following(&mut outputs).await?;
        }
        unless_damaged(id, damage)
    })
}

/// Outputs come in the order of the entries that name them.
async fn following(outputs: &mut Option<Lines>) -> Result<Option<AuditOutput>, CommandError> {
    match outputs {
        Some(lines) => Ok(lines.next().await?),
        None => Ok(None),
    }
}

/// Byte for byte as the server keeps it: a signature holds for nothing else.
fn export(id: &str, output: Option<PathBuf>, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let mut answer = client.send(Call::get(Target::sandbox(id).part("audit"))).await?;
        let damage = answer.damage();
        let Some(path) = output.filter(|path| path != Path::new("-")) else {
            while let Some(bytes) = answer.next().await? {
                caller.stdout.write_all(&bytes).map_err(CommandError::Output)?;
            }
            return unless_damaged(id, damage);
        };
        let failed = |source: io::Error| CommandError::File { path: path.clone(), source };
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        while let Some(bytes) = answer.next().await? {
            file.write_all(&bytes).map_err(failed)?;
        }
        file.persist(&path).map_err(|error| failed(error.error))?;
        unless_damaged(id, damage)
    })
}

/// A damaged timeline was passed on before this error: it is evidence.
fn unless_damaged(id: &str, damage: Option<String>) -> Result<i32, CommandError> {
    match damage {
        Some(damage) => Err(CommandError::AuditDamaged { id: id.to_string(), damage }),
        None => Ok(0),
    }
}

/// The public key is the only thing that is trusted: a verdict is worth as much as the source of the key.
fn verify(file: &Path, key: Option<&Path>, json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    let key = public_key(key, caller)?;
    let verdict = paddock_records::audit::verify(file, &key)?;
    let shown = render::escape::line(&file.display().to_string());
    let (value, text, code) = match &verdict {
        Verdict::Verified(found) => {
            let sandbox = render::escape::line(&found.sandbox);
            let last = render::time::utc(found.last_ms);
            let state = if found.closed { "closed" } else { "open" };
            (
                serde_json::json!({
                    "verified": true,
                    "sandbox": found.sandbox,
                    "entries": found.entries,
                    "first_ms": found.first_ms,
                    "last_ms": found.last_ms,
                    "closed": found.closed,
                    "recoveries": found.recoveries,
                }),
                format!(
                    "{shown} is whole: {} entries of {sandbox}, the last at {last}, {state}\n",
                    found.entries
                ),
                0,
            )
        }
        Verdict::Broken { line, reason } => (
            serde_json::json!({ "verified": false, "line": line, "reason": reason }),
            format!("{shown} was changed: line {line}: {}\n", render::escape::line(reason)),
            1,
        ),
    };
    match json {
        true => print_json(&value, caller)?,
        false => print(&text, caller)?,
    }
    Ok(code)
}

fn public_key(key: Option<&Path>, caller: &Caller) -> Result<PublicKey, CommandError> {
    let file = match key {
        // A key is no path that exists, and an existing path is no key.
        Some(key) if !key.exists() => return Ok(PublicKey::parse(&key.to_string_lossy())?),
        Some(file) => file.to_path_buf(),
        None => state::locate(&caller.environment)?.join("audit.pub"),
    };
    let text =
        std::fs::read_to_string(&file).map_err(|source| CommandError::PublicKey { path: file, source })?;
    Ok(PublicKey::parse(&text)?)
}
