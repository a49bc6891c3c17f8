//! Execs as the store has them, with the output that their files have.

use super::contexts::{Part, Said};
use super::execs::{ExecRecord, TrackedExec};
use super::record::Record;
use super::{Fleet, FleetError};
use paddock_records::journal::Journal;
use std::sync::Arc;

impl Fleet {
    /// The execs of a sandbox in the store, except calls that ended long ago.
    pub(super) fn stored_execs(&self, record: &Record) -> Result<Vec<Arc<TrackedExec>>, FleetError> {
        let bodies = self.0.store.execs_of(record.id.as_str())?;
        bodies.iter().map(|(_, body)| self.read_stored_exec(record, body)).collect()
    }

    /// One of them, including calls that ended long ago.
    pub(super) fn stored_exec(
        &self,
        record: &Record,
        number: u32,
    ) -> Result<Option<Arc<TrackedExec>>, FleetError> {
        let (store, id) = (&self.0.store, record.id.as_str());
        let body = match store.exec(id, number)? {
            Some(body) => Some(body),
            None => store.past_call(id, number)?,
        };
        body.map(|body| self.read_stored_exec(record, &body)).transpose()
    }

    fn read_stored_exec(&self, sandbox: &Record, body: &str) -> Result<Arc<TrackedExec>, FleetError> {
        let record: ExecRecord = serde_json::from_str(body).map_err(|error| FleetError::internal(&error))?;
        let id = sandbox.id.as_str();
        let directory = self.0.options.state.join("sandboxes").join(id).join("execs");
        let directory = directory.join(record.number.to_string());
        let failed = |error| FleetError::storage(&error);
        let journal = Journal::open(&directory, record.output_limit).map_err(failed)?;
        let said = matches!(record.part, Part::Call(_)).then(|| Said::open(&directory));
        let mut tracked = TrackedExec::new(id, record, journal);
        if let Some(said) = said {
            tracked = tracked.with_said(said.map_err(failed)?);
        }
        tracked.compare_with_files();
        if sandbox.lives() {
            // More output may come, even of an exec that has ended: processes that it started may still print.
            tracked.rest();
        } else {
            tracked.close();
        }
        Ok(Arc::new(tracked))
    }
}
