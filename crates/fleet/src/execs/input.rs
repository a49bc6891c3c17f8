//! An exec's standard input, written piece by piece, and again after a lost connection.

use super::tracked::{TrackedExec, TrackedInput};
use crate::live::OpenStream;
use crate::{FleetError, Kind};
use std::sync::Arc;

pub struct ExecInput {
    tracked: Arc<TrackedExec>,
    _open: OpenStream,
}

impl ExecInput {
    pub(super) fn new(tracked: Arc<TrackedExec>, open: OpenStream) -> ExecInput {
        ExecInput { tracked, _open: open }
    }

    /// `offset`: the place of these bytes in the whole input; bytes that were written before are skipped. Returns the
    /// number of all bytes so far. Waits while the exec does not read.
    pub async fn write(&mut self, offset: Option<u64>, bytes: &[u8]) -> Result<u64, FleetError> {
        let mut guard = self.tracked.input.lock().await;
        let offset = offset.unwrap_or(guard.offset);
        let Some(known) = guard.offset.checked_sub(offset) else {
            return Err(FleetError::new(
                Kind::Conflict,
                "wrong_state",
                format!(
                    "input at offset {offset} was sent, but only {} bytes have come so far",
                    guard.offset
                ),
            )
            .hint("send what is missing first"));
        };
        let new = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        if new.is_empty() {
            return Ok(guard.offset);
        }
        let TrackedInput { offset, input } = &mut *guard;
        let Some(open) = input else { return Err(closed(&self.tracked)) };
        // An exec that has ended reads no more, and would let this wait for ever.
        let taken = tokio::select! {
            biased;
            () = self.tracked.wait() => false,
            taken = open.write(new) => taken,
        };
        if !taken {
            return Err(closed(&self.tracked));
        }
        *offset += new.len() as u64;
        Ok(*offset)
    }

    /// Closes the input.
    pub async fn close(&mut self) -> Result<(), FleetError> {
        if let Some(input) = self.tracked.input.lock().await.input.take() {
            input.close();
        }
        Ok(())
    }
}

impl TrackedExec {
    pub(super) async fn input_owned(self: Arc<TrackedExec>) -> tokio::sync::OwnedMutexGuard<TrackedInput> {
        self.input.clone().lock_owned().await
    }
}

fn closed(tracked: &TrackedExec) -> FleetError {
    let number = tracked.number();
    if tracked.runs() {
        let message = format!("exec {number}: its standard input is closed");
        return FleetError::new(Kind::Conflict, "wrong_state", message).hint("start it with `open_stdin`");
    }
    FleetError::new(Kind::Gone, "exec_ended", format!("exec {number} has ended, and reads no more input"))
        .hint("GET of the exec says how; start another")
}
