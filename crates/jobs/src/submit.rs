//! A job is taken: checked with all that its sandboxes would be refused with, and stored.

use crate::check::check;
use crate::inner::{Inner, Jobs};
use crate::live::LiveJob;
use crate::record::{JobRecord, Submitter, now_ms, without_values};
use crate::request::request_of;
use crate::script;
use paddock_fleet::{Actor, FleetError, Keeps, Kind};
use paddock_model::SecretValue;
use paddock_model::api::{Job, JobSpec, JobState, SandboxState};
use paddock_records::store::{JobInserted, JobKey, JobRow};
use sha2::{Digest, Sha256};
use std::sync::Arc;

impl Jobs {
    /// Returns when it is stored. The same key gives the same job again.
    pub async fn submit(&self, actor: &Actor, spec: JobSpec, key: Option<&str>) -> Result<Job, FleetError> {
        let inner = &self.0;
        inner.fleet.ready()?;
        check(&spec)?;
        self.check_with_fleet(actor, &spec).await?;
        let most = inner.options.most_jobs;
        if inner.fleet.records().count_jobs(&actor.tenant)? >= most {
            let message = format!("tenant {} has {most} jobs already", actor.tenant);
            return Err(FleetError::new(
                Kind::TooMany { retry_after_seconds: 60 },
                "quota_exceeded",
                message,
            )
            .hint("remove ended ones: `paddock job rm`"));
        }
        let id = format!("job-{:016x}", self.0.fleet.random_for_id()?);
        let (row, record) = self.describe(actor, &spec, &id)?;
        let fingerprint = self.fingerprint(&spec)?;
        let key = key.map(|key| JobKey { key, fingerprint: &fingerprint });
        match inner.fleet.records().insert_job(&row, key)? {
            JobInserted::New => {}
            JobInserted::Existing(id) => return self.get(actor, &id, None).await,
            JobInserted::Mismatch => {
                let message = "this idempotency key was used for another request";
                return Err(FleetError::new(Kind::Conflict, "wrong_state", message)
                    .hint("use a new key for a new request"));
            }
        }
        let job = Arc::new(LiveJob::new(id.clone(), spec, record));
        if let Err(error) = take_base(inner, &job).await {
            inner.fleet.records().delete_job(&id)?;
            return Err(error);
        }
        let shown = job.to_api();
        let count = job.spec.count();
        inner.add(job, 0..count);
        Ok(shown)
    }

    async fn check_with_fleet(&self, actor: &Actor, spec: &JobSpec) -> Result<(), FleetError> {
        let fleet = &self.0.fleet;
        let mut request = request_of(spec, None);
        request.env = spec.env.clone();
        request.cwd = spec.cwd.clone();
        if let Some(plan) = script::plan(fleet, spec, actor, 0)? {
            request = script::overlay(plan.sandbox, request, spec);
        }
        fleet.check_create(actor, &request)?;
        if let Some(id) = spec.best_of.as_ref().and_then(|best_of| best_of.sandbox.as_deref()) {
            let sandbox = fleet.get(actor, id).await?;
            if sandbox.state == SandboxState::Ended {
                let message = format!("field `best_of.sandbox`: sandbox {id} has ended");
                return Err(FleetError::new(Kind::Gone, "sandbox_ended", message));
            }
        }
        Ok(())
    }

    fn describe(&self, actor: &Actor, spec: &JobSpec, id: &str) -> Result<(JobRow, JobRecord), FleetError> {
        let json = |error: serde_json::Error| FleetError::internal(&error);
        let has_values = spec.policy.secrets.values().any(|secret| secret.value.is_some());
        let sealed = has_values.then(|| {
            let plain = serde_json::to_vec(&spec.policy.secrets).map_err(json)?;
            self.0.fleet.seal(id, &plain)
        });
        let record = JobRecord {
            owner: Submitter::of(actor),
            state: JobState::Queued,
            reason: None,
            created_at_ms: now_ms(),
            started_at_ms: None,
            ended_at_ms: None,
            kept_until_ms: None,
            counts: Default::default(),
            cost: Default::default(),
            best: None,
            cancelled: None,
            base: None,
            sealed: sealed.transpose()?,
        };
        let row = JobRow {
            id: id.into(),
            tenant: actor.tenant.clone(),
            state: record.state.word().into(),
            created_ms: record.created_at_ms,
            kept_until_ms: None,
            spec: serde_json::to_string(&without_values(spec)).map_err(json)?,
            body: serde_json::to_string(&record).map_err(json)?,
        };
        Ok((row, record))
    }

    /// Tells requests apart, and says nothing of the values of secrets.
    fn fingerprint(&self, spec: &JobSpec) -> Result<String, FleetError> {
        let mut told = spec.clone();
        for secret in told.policy.secrets.values_mut() {
            secret.value = secret.value.as_ref().map(|value| SecretValue(self.0.fleet.fingerprint(&value.0)));
        }
        let body = serde_json::to_vec(&told).map_err(|error| FleetError::internal(&error))?;
        Ok(Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The files of the candidates' sandbox as they are now, under the job's own name: a server that is killed finds them.
pub async fn take_base(inner: &Inner, job: &LiveJob) -> Result<(), FleetError> {
    let Some(sandbox) = job.spec.best_of.as_ref().and_then(|best_of| best_of.sandbox.as_deref()) else {
        return Ok(());
    };
    let taken = match inner.fleet.snapshot(&job.actor, &job.id).await {
        Ok(taken) => taken,
        Err(_) => {
            let name = Some(job.id.clone());
            inner.fleet.snapshot_keeping(&job.actor, sandbox, name, Keeps::WhatItCan).await?
        }
    };
    let record = {
        let mut progress = job.progress();
        progress.record.base = Some(taken.id);
        progress.record.clone()
    };
    let change = record.change(&job.id).map_err(|error| FleetError::internal(&error))?;
    inner.writer.write(vec![change]).await
}
