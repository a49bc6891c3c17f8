//! The outputs that a timeline names, read again: opened, and compared with the signed digests.

use super::execs::{Kept, PrintedRecord};
use super::{Actor, Fleet, FleetError, Kind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_model::SandboxId;
use paddock_model::api::{AuditOutput, AuditOutputState, AuditStream, Role};
use paddock_records::audit::{Exported, KeptOutput, Outputs, PublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The outputs that are read ahead of a slow reader.
const AHEAD: usize = 2;
/// Longer than any entry can get.
const LONGEST_LINE: u64 = 32 << 20;
/// Every entry about the end of an exec has this text, and few others do.
const MARK: &[u8] = b"\"kind\":\"exec_ended\"";

/// The outputs one after the other, in the order of the timeline.
pub struct AuditOutputs(mpsc::Receiver<AuditOutput>);

impl AuditOutputs {
    pub async fn next(&mut self) -> Option<AuditOutput> {
        self.0.recv().await
    }
}

impl Fleet {
    /// The outputs in the timeline of a sandbox; with `exec`, of that call only.
    pub async fn audit_outputs(
        &self,
        actor: &Actor,
        id: &str,
        exec: Option<u32>,
    ) -> Result<AuditOutputs, FleetError> {
        if actor.role != Role::Admin && !actor.owner {
            let message = "outputs in the audit are for an admin";
            return Err(FleetError::new(Kind::Forbidden, "forbidden", message)
                .hint("use a token of the role admin; the timeline itself is everybody's of the tenant"));
        }
        let id = self.with_timeline(actor, id)?;
        // Each output has its own verdict.
        let (exported, _) = self.exported(&id).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let (outputs, key) =
            (self.0.audit_writer.outputs().clone(), self.0.audit_writer.audit().public_key());
        tokio::task::spawn_blocking(move || read(&Place { id, outputs, key }, exported, exec, &sender));
        Ok(AuditOutputs(receiver))
    }
}

struct Place {
    id: SandboxId,
    outputs: Arc<Outputs>,
    key: PublicKey,
}

#[derive(Deserialize)]
struct Entry {
    seq: u64,
    at_ms: u64,
    kind: String,
    detail: Ended,
}

#[derive(Deserialize)]
struct Ended {
    exec: u32,
    stdout: Whole,
    stderr: Whole,
    /// `None` in entries of earlier versions.
    output: Option<KeptOutput>,
}

#[derive(Deserialize)]
struct Whole {
    bytes: u64,
    sha256: String,
}

/// Ends when the receiver is dropped.
fn read(place: &Place, exported: Exported, exec: Option<u32>, sender: &mpsc::Sender<AuditOutput>) {
    let Exported { file, bytes, .. } = exported;
    let mut lines = BufReader::new(file.take(bytes));
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
        if memchr::memmem::find(&line, MARK).is_none() {
            continue;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let Ok(entry) = serde_json::from_slice::<Entry>(text) else { continue };
        if entry.kind != "exec_ended" || exec.is_some_and(|exec| exec != entry.detail.exec) {
            continue;
        }
        let signed = paddock_records::audit::is_signed(&place.key, text);
        if sender.blocking_send(place.output(entry, signed)).is_err() {
            return;
        }
    }
}

impl Place {
    fn output(&self, entry: Entry, signed: bool) -> AuditOutput {
        let Ended { exec, stdout, stderr, output } = entry.detail;
        let mut shown = AuditOutput {
            seq: entry.seq,
            at_ms: entry.at_ms,
            exec,
            state: state(output.as_ref()),
            stdout: None,
            stderr: None,
            results: Vec::new(),
            results_left_out: 0,
            error: None,
            verified: false,
            problem: None,
        };
        if !signed {
            shown.problem = Some("its entry was changed, or signed by another key".into());
            return shown;
        }
        match output.map_or(Ok(None), |kept| self.outputs.read(&self.id, exec, &kept)) {
            Err(problem) => shown.problem = Some(problem),
            Ok(None) if shown.state == AuditOutputState::Kept => shown.state = AuditOutputState::Removed,
            Ok(None) => shown.verified = true,
            Ok(Some(plain)) => match serde_json::from_slice::<PrintedRecord>(&plain) {
                Err(_) => shown.problem = Some("it is not an output".into()),
                Ok(record) => {
                    let problem = [("stdout", &stdout, &record.stdout), ("stderr", &stderr, &record.stderr)]
                        .into_iter()
                        .find_map(|(name, whole, kept)| differs(name, whole, kept));
                    (shown.verified, shown.problem) = (problem.is_none(), problem);
                    shown.stdout = Some(stream(stdout, record.stdout));
                    shown.stderr = Some(stream(stderr, record.stderr));
                    (shown.results, shown.results_left_out) = (record.results, record.results_left_out);
                    shown.error = record.error;
                }
            },
        }
        shown
    }
}

fn state(kept: Option<&KeptOutput>) -> AuditOutputState {
    match kept {
        Some(KeptOutput::Kept { .. }) => AuditOutputState::Kept,
        Some(KeptOutput::Nothing) => AuditOutputState::Nothing,
        Some(KeptOutput::Full) => AuditOutputState::Full,
        Some(KeptOutput::Failed) => AuditOutputState::Failed,
        Some(KeptOutput::Off) | None => AuditOutputState::Off,
    }
}

/// If nothing was left out, the kept bytes must have the digest of the signed entry. Precondition: the entry is signed.
fn differs(name: &str, whole: &Whole, kept: &Kept) -> Option<String> {
    let (first, last) = (STANDARD.decode(&kept.first).ok()?, STANDARD.decode(&kept.last).ok()?);
    let length = first.len() as u64 + kept.left_out + last.len() as u64;
    if length != whole.bytes {
        return Some(format!("{name} has {length} bytes, and its entry says {}", whole.bytes));
    }
    // An earlier server saw a part of the output, and no digest of all of it is known.
    if kept.left_out > 0 || whole.sha256.is_empty() {
        return None;
    }
    let digest = Sha256::new().chain_update(first).chain_update(last).finalize();
    let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (found != whole.sha256).then(|| format!("{name} does not have the digest of its entry"))
}

fn stream(whole: Whole, kept: Kept) -> AuditStream {
    let Kept { first, left_out, last } = kept;
    AuditStream { bytes: whole.bytes, sha256: whole.sha256, first, left_out, last }
}
