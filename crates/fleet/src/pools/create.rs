//! From a request to a sandbox that was ready before it came.

use super::member::{Member, Parts};
use super::pool::Taken;
use crate::clock::boot_id;
use crate::live::Live;
use crate::record::{Record, now_ms};
use crate::{Fleet, FleetError, reaper};
use paddock_model::api::SandboxState;
use paddock_model::{ForkKind, Requirement, Spec};
use paddock_records::access::Permit;
use paddock_records::store::SandboxRow;
use paddock_settings::templates::BUILT_IN;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl Fleet {
    /// A sandbox of its template's pool, or one that is made in the same way. `None` if no pool has such sandboxes.
    pub(crate) async fn ready_made(&self, record: &Record, preload: &[String]) -> Option<Member> {
        let insists = record.spec.require.contains(&Requirement::LiveForks);
        if insists && record.guarantees.fork == ForkKind::Interpreter {
            return None;
        }
        let template = record.template.as_deref().unwrap_or(BUILT_IN);
        let pool = self.0.pools.named(template)?;
        match pool.take(record, preload)? {
            Taken::Ready(member) => Some(*member),
            Taken::Blueprint(blueprint, origin) => match self.make_member(&blueprint, &origin).await {
                Ok(member) => Some(member),
                Err(error) => {
                    // The sandbox is made as if there were no pool, and reports its own failure then.
                    tracing::warn!(template, %error, "a sandbox could not be made as its pool's are");
                    None
                }
            },
        }
    }

    /// Gives a ready sandbox to the caller: recorded by one write, and acknowledged.
    pub(crate) fn give(
        &self,
        mut record: Record,
        member: Member,
        permit: Permit,
    ) -> Result<Arc<Live>, FleetError> {
        let inner = &self.0;
        let Some(parts) = member.take() else {
            let gone = std::io::Error::other("a sandbox that was ready has gone");
            return Err(FleetError::internal(&gone));
        };
        let id = parts.id.to_string();
        let left = |at: u64| Duration::from_millis(at.saturating_sub(now_ms()));
        record.set_time_to_live(record.expires_at_ms.map(left));
        record.state = SandboxState::Running;
        record.boot = boot_id().into();
        record.guarantees = parts.inside.guarantees.clone();
        record.ready_at_ns = parts.built_ns.1;
        record.built_ns.push(parts.built_ns);
        // When it wakes from hibernation, it is made as its caller asked.
        record.spec = Spec { live_forks: record.spec.live_forks, ..parts.spec.clone() };
        record.within = parts.within.clone();
        let body = serde_json::to_string(&record).map_err(|error| FleetError::internal(&error));
        let stored = body.and_then(|body| {
            inner.store.insert_sandbox(&SandboxRow {
                id: id.clone(),
                tenant: record.tenant.clone(),
                name: record.name.clone(),
                state: SandboxState::Running,
                created_ms: record.created_at_ms,
                ended_ms: None,
                body: body.clone(),
            })?;
            Ok(body)
        });
        let body = match stored {
            Ok(body) => body,
            Err(error) => {
                inner.counters.count_create(false);
                self.discard(parts);
                return Err(error);
            }
        };
        inner.audit_writer.copy_in_a_moment(&record, body);
        let directory = inner.options.state.join("sandboxes").join(&id);
        let live = Live::new(record, directory, BTreeMap::new());
        *live.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        let Parts { inside, waiting, .. } = parts;
        inside.set_deadline(live.record().guest_deadline());
        let inside = Arc::new(inside);
        if let Some(waiting) = waiting {
            live.set_waiting_interpreter(waiting);
        }
        live.set_running(Some(inside.clone()));
        inner.add(live.clone());
        reaper::watch_over(self, &live, inside);
        inner.counters.count_create(true);
        inner.tell(&live, "created", None);
        Ok(live)
    }
}
