//! A request with an idempotency key happens once, however often it is sent.

use super::fork_results::{ForkNote, never_made, not_forked, sorted};
use super::{Actor, Fleet, FleetError, Kind, REQUEST_UNDER_WAY};
use paddock_model::api::{EndCause, ExecCause, Forked};
use paddock_model::{ForkKind, SandboxId};
use paddock_records::store::{Begun, Unfinished};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const LONGEST_KEY: usize = 255;

impl Fleet {
    pub(super) async fn once<R, T>(
        &self,
        actor: &Actor,
        scope: &str,
        key: Option<&str>,
        request: &R,
        action: impl AsyncFnOnce(&Fleet, Note<'_>) -> Result<T, FleetError>,
    ) -> Result<T, FleetError>
    where
        R: Serialize,
        T: Serialize + DeserializeOwned,
    {
        let Some(key) = key else { return action(self, Note(None)).await };
        if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(super::request::invalid(format!(
                "the idempotency key is empty, longer than {LONGEST_KEY}, or holds other than printable ASCII"
            )));
        }
        let body = serde_json::to_vec(request).map_err(|error| FleetError::internal(&error))?;
        let fingerprint = super::record::sha256(&body);
        let store = &self.0.store;
        match store.begin(&actor.tenant, scope, key, &fingerprint, super::record::now_ms())? {
            Begun::New => {}
            Begun::Existing(result) => {
                return serde_json::from_str(&result).map_err(|error| FleetError::internal(&error));
            }
            Begun::InProgress => {
                let message = "a request with this idempotency key is under way";
                return Err(FleetError::new(Kind::Conflict, REQUEST_UNDER_WAY, message)
                    .hint("send it again in a moment"));
            }
            Begun::Mismatch => {
                return Err(FleetError::new(
                    Kind::Conflict,
                    "wrong_state",
                    "this idempotency key was used for another request",
                )
                .hint("use a new key for a new request"));
            }
        }
        // A caller that goes away does not leave the key half used.
        let abandoned = Abandon { fleet: self, actor, scope, key, armed: true };
        let result = action(self, Note(Some(&abandoned))).await?;
        let text = serde_json::to_string(&result).map_err(|error| FleetError::internal(&error))?;
        store.finish(&actor.tenant, scope, key, &text)?;
        abandoned.disarm();
        Ok(result)
    }
}

/// Tells a new server how far an unfinished request has come.
#[derive(Clone, Copy)]
pub struct Note<'a>(Option<&'a Abandon<'a>>);

/// With this, a request that turns out never to have happened can be given up later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    pub tenant: String,
    pub key: String,
}

impl Note<'_> {
    /// Of a request that may happen twice.
    pub const fn none() -> Note<'static> {
        Note(None)
    }

    /// The key to store with the things that the request makes.
    pub fn key(self) -> Option<RequestKey> {
        let request = self.0?;
        Some(RequestKey { tenant: request.actor.tenant.clone(), key: request.key.into() })
    }

    /// To be called before the named thing is made.
    pub fn write(self, what: &impl Serialize) -> Result<(), FleetError> {
        let Some(request) = self.0 else { return Ok(()) };
        let text = serde_json::to_string(what).map_err(|error| FleetError::internal(&error))?;
        let store = &request.fleet.0.store;
        Ok(store.note(&request.actor.tenant, request.scope, request.key, &text)?)
    }
}

pub struct Abandon<'a> {
    fleet: &'a Fleet,
    actor: &'a Actor,
    scope: &'a str,
    key: &'a str,
    armed: bool,
}

impl Abandon<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if self.armed {
            let _ = self.fleet.0.store.abandon(&self.actor.tenant, self.scope, self.key);
        }
    }
}

impl Fleet {
    /// Requests that a killed server did not finish. Those with a result are finished with it, so that they do not
    /// happen again when they are sent again.
    ///
    /// Precondition: every living sandbox has been taken over.
    pub(super) async fn settle_unfinished(&self) -> Result<(), FleetError> {
        for unfinished in self.0.store.unfinished()? {
            let Unfinished { tenant, scope, key, note } = &unfinished;
            let result = match note.as_deref() {
                Some(note) => self.outcome(scope, note).await?,
                None => None,
            };
            match result {
                Some(result) => self.0.store.finish(tenant, scope, key, &result)?,
                None => self.0.store.abandon(tenant, scope, key)?,
            }
        }
        Ok(())
    }

    /// The forks that were made; `None` if all are needed and not all are there.
    async fn forked_before(&self, note: &str) -> Result<Option<Forked>, FleetError> {
        let Ok(note) = serde_json::from_str::<ForkNote>(note) else { return Ok(None) };
        let (ids, partial) = note.into_forks();
        let found = |id: &SandboxId| self.find(&Actor::owner(), id.as_str()).map_err(|_| never_made());
        let (children, failed) = sorted((0..).zip(ids.iter().map(found)).collect());
        if children.is_empty() || (!partial && !failed.is_empty()) {
            for child in children {
                self.end(&child, EndCause::Killed).await?;
            }
            return Ok(None);
        }
        let sandboxes = children.iter().map(|child| child.to_api()).collect();
        let kind = children.first().map_or(ForkKind::Filesystem, |child| child.forked_as());
        let failed = failed.into_iter().map(|(place, error)| not_forked(place, error)).collect();
        // The fates of the contexts were not noted.
        let (contexts, left_behind) = (Vec::new(), Vec::new());
        Ok(Some(Forked { sandboxes, kind, reason: None, contexts, left_behind, failed }))
    }

    /// The result of a request; `None` if there was none.
    async fn outcome(&self, scope: &str, note: &str) -> Result<Option<String>, FleetError> {
        let owner = Actor::owner();
        match scope.split_once(' ') {
            Some(("exec", sandbox)) => {
                let tracked = self.find(&owner, sandbox).ok().and_then(|live| live.exec(note.parse().ok()?));
                let started = tracked
                    .filter(|tracked| !matches!(tracked.record().cause, Some(ExecCause::NotStarted { .. })));
                Ok(started.map(|tracked| text(&tracked.to_api())))
            }
            Some(("fork", _)) => Ok(self.forked_before(note).await?.map(|forked| text(&forked))),
            _ => {
                let id: String = serde_json::from_str(note).unwrap_or_default();
                Ok(self.find(&owner, &id).ok().map(|live| text(&live.to_api())))
            }
        }
    }
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
