//! Parts of the fleet for work that outlives its caller: its records, its secrets at rest, and a check that a sandbox
//! could be created.

use super::create::times;
use super::volumes::Wanted;
use super::{Actor, Fleet, FleetError, audit};
use paddock_model::api::{CreateSandbox, EndCause, Sandbox};
use paddock_records::store::Store;
use std::path::Path;
use std::sync::atomic::Ordering;
use zeroize::Zeroizing;

impl Fleet {
    pub fn records(&self) -> &Store {
        &self.0.store
    }

    pub fn state_directory(&self) -> &Path {
        &self.0.options.state
    }

    /// True if nothing new may begin.
    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// The time that decides which records are old; after a jump of the clock nothing is taken for older than it is.
    pub fn cautious_now_ms(&self) -> u64 {
        self.0.steady.cautious_now_ms()
    }

    /// Encrypts a value for that owner alone.
    pub fn seal(&self, owner: &str, plain: &[u8]) -> Result<String, FleetError> {
        self.0.vault.seal(owner, plain).map_err(|error| FleetError::internal(&error))
    }

    pub fn unseal(&self, owner: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, FleetError> {
        self.0.vault.unseal(owner, sealed).map_err(|error| FleetError::internal(&error))
    }

    /// Tells two values apart without revealing them.
    pub fn fingerprint(&self, value: &str) -> String {
        self.0.vault.fingerprint(value)
    }

    /// Refuses a request that a create would refuse before it makes anything. An image is not fetched.
    pub fn check_create(&self, actor: &Actor, request: &CreateSandbox) -> Result<(), FleetError> {
        let (_, _, settings) = self.resolved(actor, request)?;
        times(request, self.0.options.default_ttl)?;
        Wanted::all(actor, &request.volumes, &settings.spec)?;
        Ok(self.0.engine.check_required(settings.backend.as_deref(), &settings.spec)?)
    }

    /// Ends a sandbox whose work failed: its volumes follow their rule for failures.
    pub async fn end_failed(&self, actor: &Actor, id: &str, detail: &str) -> Result<Sandbox, FleetError> {
        let live = match self.find(actor, id) {
            Ok(live) => live,
            Err(error) => return self.ended(actor, id)?.map(|record| record.to_api(0)).ok_or(error),
        };
        audit::call(&self.0, actor, &live, "work_failed", serde_json::json!({ "detail": detail }));
        let detail = detail.to_string();
        self.detached(async move |fleet: Fleet| {
            fleet.end(&live, EndCause::WorkFailed { detail }).await?;
            Ok(live.to_api())
        })
        .await
    }
}
