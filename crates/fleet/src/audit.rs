//! The entries of a sandbox's timeline.

use super::execs::{Printed, TrackedExec};
use super::live::Live;
use super::streams::Received;
use super::{Actor, Inner};
use paddock_engine::Command;
use paddock_model::api::{End, RunCode, StartExec};
use paddock_model::net::{NetEvent, NetOutcome};
use paddock_model::{SandboxId, ScanMode, ScanReport};
use paddock_records::audit::{AuditActor, AuditEntry, AuditEvent, Digested, KeptOutput, Text};
use serde_json::Value;
use std::sync::Arc;

/// A call that changes something.
pub fn call(inner: &Inner, actor: &Actor, live: &Live, operation: &str, arguments: Value) {
    let arguments = Text::new(&arguments.to_string());
    append(inner, Some(actor), &live.id, AuditEvent::Call { operation: operation.into(), arguments });
}

pub fn exec_started(
    inner: &Inner,
    actor: &Actor,
    live: &Live,
    number: u32,
    command: &Command,
    request: &StartExec,
    code: Option<&RunCode>,
) {
    let event = AuditEvent::Exec {
        exec: number,
        argv: Text::list(command.argv.iter().map(String::as_str)),
        env_names: Text::list(request.env.keys().map(String::as_str)),
        cwd: command.cwd.as_deref().map(Text::new),
        user: Some(Text::new(&format!("{:?}", command.user))),
        stdin: request.stdin.as_ref().map(|stdin| Digested::of(stdin.as_bytes())),
        code: code.map(|code| Text::new(&code.code)),
    };
    append(inner, Some(actor), &live.id, event);
}

pub fn exec_ended(inner: &Inner, live: &Live, tracked: &Arc<TrackedExec>) {
    let record = tracked.record().clone();
    let (stdout, stderr) = tracked.journal.lengths();
    // If an earlier server saw a part of the output, no digest of all of it is known.
    let (stdout_digest, stderr_digest) = tracked.digests().unwrap_or_default();
    let event = AuditEvent::ExecEnded {
        exec: record.number,
        exit_code: record.exit_code,
        cause: Text::new(&serde_json::to_string(&record.cause).unwrap_or_default()),
        stdout: Digested { bytes: stdout, sha256: stdout_digest },
        stderr: Digested { bytes: stderr, sha256: stderr_digest },
        output: KeptOutput::Off,
    };
    let Ok(id) = SandboxId::try_from(live.id.clone()) else { return };
    let printed = live.record().audit_outputs.then(|| Printed::new(tracked));
    inner.audit_writer.enter_with_output(&id, AuditEntry::new(AuditActor::server(), event), printed);
}

pub fn scanned(
    inner: &Inner,
    actor: &Actor,
    live: &Live,
    mode: ScanMode,
    language: &str,
    report: &ScanReport,
    code: &str,
) {
    let denied = mode == ScanMode::Deny;
    let event = AuditEvent::Scanned {
        mode: mode.name(),
        language: Text::new(language),
        denied,
        findings: Text::new(&serde_json::to_string(&report.findings).unwrap_or_default()),
        findings_missing: report.findings_missing,
        code: Digested::of(code.as_bytes()),
        denied_code: denied.then(|| Text::new(code)),
    };
    append(inner, Some(actor), &live.id, event);
}

pub fn network(inner: &Inner, live: &Live, event: &NetEvent) {
    let (verdict, reason, moved) = match &event.outcome {
        NetOutcome::Allowed(grant) => ("allowed", grant.to_string(), None),
        NetOutcome::Denied(denial) => ("denied", denial.to_string(), None),
        NetOutcome::Closed { sent, received, why } => {
            let reason = why.as_ref().map_or_else(String::new, ToString::to_string);
            ("closed", reason, Some((*sent, *received)))
        }
    };
    let event = AuditEvent::Network {
        verdict,
        way: event.way.name(),
        name: event.name.as_ref().map(|name| Text::new(name.as_str())),
        address: event.address.map(|address| address.to_string()),
        port: event.port,
        reason: Text::new(&reason),
        sent_bytes: moved.map(|(sent, _)| sent),
        received_bytes: moved.map(|(_, received)| received),
        count: event.count,
    };
    append(inner, None, &live.id, event);
}

pub fn file_written(inner: &Inner, actor: &Actor, live: &Live, path: &str, received: Received) {
    let content = Digested { bytes: received.bytes, sha256: received.sha256 };
    append(inner, Some(actor), &live.id, AuditEvent::FileWritten { path: Text::new(path), content });
}

/// A change without a call: idleness, a shortage of memory, or a server that came back.
pub fn lifecycle(inner: &Inner, sandbox: &str, change: &str, reason: Option<&str>) {
    let event = AuditEvent::Lifecycle { change: change.into(), detail: reason.map(Text::new) };
    append(inner, None, sandbox, event);
}

/// The last entry.
pub fn ended(inner: &Inner, sandbox: &str, end: &End) {
    let cause = Text::new(&serde_json::to_string(&end.cause).unwrap_or_default());
    append(inner, None, sandbox, AuditEvent::Ended { cause, reason: Text::new(&end.reason) });
}

fn append(inner: &Inner, actor: Option<&Actor>, sandbox: &str, event: AuditEvent) {
    let who = actor.map_or_else(AuditActor::server, |actor| AuditActor {
        tenant: actor.tenant.clone(),
        token: actor.token.clone(),
    });
    let Ok(id) = SandboxId::try_from(sandbox.to_string()) else { return };
    inner.audit_writer.enter(&id, AuditEntry::new(who, event));
}
