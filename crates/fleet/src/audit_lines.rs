//! The timeline of a sandbox for its callers, with a check that it is whole.

use super::streams::Download;
use super::{Actor, Fleet, FleetError};
use paddock_model::SandboxId;
use paddock_records::audit::{AuditError, Exported, Verdict};

/// A timeline with its head as the last line: the input of `paddock audit verify`.
pub struct AuditLines {
    pub lines: Download,
    /// The line at which a change shows, and the kind of the change.
    pub damage: Option<String>,
}

impl Fleet {
    /// The timeline of a living or an ended sandbox. A damaged timeline is returned as it is, with the damage named: it
    /// is evidence.
    pub async fn audit_lines(&self, actor: &Actor, id: &str) -> Result<AuditLines, FleetError> {
        let id = self.with_timeline(actor, id)?;
        let (Exported { file, bytes, head }, damage) = self.exported(&id).await?;
        let lines = Download::from_host(tokio::fs::File::from_std(file), bytes, head);
        Ok(AuditLines { lines, damage })
    }

    /// The owner also finds, by their ids, timelines of sandboxes that have no other record any more.
    pub(super) fn with_timeline(&self, actor: &Actor, id: &str) -> Result<SandboxId, FleetError> {
        let error = match self.find(actor, id) {
            Ok(live) => return Ok(live.record().id.clone()),
            Err(error) => error,
        };
        if let Some(record) = self.ended(actor, id)? {
            return Ok(record.id);
        }
        let named = SandboxId::try_from(id.to_string()).ok().filter(|_| actor.owner);
        named.filter(|id| self.0.audit_writer.audit().path(id).exists()).ok_or(error)
    }

    /// The timeline with everything that happened until now, and its damage.
    pub(super) async fn exported(&self, id: &SandboxId) -> Result<(Exported, Option<String>), FleetError> {
        self.0.audit_writer.written().await;
        let (fleet, id) = (self.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || fleet.read_audit(&id));
        let read = read.await.map_err(|error| FleetError::internal(&error))?;
        read.map_err(|error| FleetError::storage(&error))
    }

    /// Blocks.
    fn read_audit(&self, id: &SandboxId) -> Result<(Exported, Option<String>), AuditError> {
        let audit = self.0.audit_writer.audit();
        // A sandbox without an event yet gets a timeline all the same.
        if !audit.path(id).exists() {
            audit.append(id, &[])?;
        }
        let exported = match audit.exported(id) {
            Err(AuditError::Missing { .. }) => return self.without_head(id, "its head is gone".into()),
            Err(AuditError::Broken { reason, .. }) => return self.without_head(id, reason),
            exported => exported?,
        };
        match audit.check(id, &exported)? {
            Verdict::Verified(_) => Ok((exported, None)),
            Verdict::Broken { line, reason } => {
                let whole = Exported { bytes: u64::MAX, ..exported };
                Ok((whole, Some(format!("line {line}: {reason}"))))
            }
        }
    }

    fn without_head(&self, id: &SandboxId, why: String) -> Result<(Exported, Option<String>), AuditError> {
        let path = self.0.audit_writer.audit().path(id);
        let file = std::fs::File::open(&path).map_err(|source| AuditError::io(&path, source))?;
        Ok((Exported { file, bytes: u64::MAX, head: Vec::new() }, Some(why)))
    }
}
