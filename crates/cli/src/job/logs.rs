//! The output of a task, each byte once, on the caller's own streams.

use crate::caller::Caller;
use crate::client::{Call, Client, ClientError, Target};
use crate::commands::CommandError;
use crate::live::Retry;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use paddock_model::api::{OutputEvent, StreamName};
use paddock_model::format_bytes;
use std::io;

/// How far both streams were written. Another attempt begins at 0 again.
#[derive(Default)]
struct Seen {
    stdout: u64,
    stderr: u64,
    /// The connection is a new one: the bytes before are known.
    resumed: bool,
}

impl Seen {
    /// The part of these bytes that is new.
    fn fresh(&mut self, stream: StreamName, offset: u64, bytes: Vec<u8>) -> Vec<u8> {
        let resumed = self.resumed;
        let seen = match stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
        };
        let end = offset.saturating_add(bytes.len() as u64);
        if resumed && offset < *seen {
            let known = seen.saturating_sub(offset).min(bytes.len() as u64) as usize;
            *seen = (*seen).max(end);
            return bytes[known..].to_vec();
        }
        *seen = end;
        bytes
    }
}

/// With `follow` until the task's end, else to the last byte that exists now.
pub async fn follow(
    client: &Client,
    target: &Target,
    follow: bool,
    caller: &mut Caller<'_>,
) -> Result<(), CommandError> {
    let (mut retry, mut seen) = (Retry::new(), Seen::default());
    loop {
        let error = match pass(client, target, &mut seen, &mut retry, caller).await {
            Ok(()) => return Ok(()),
            Err(CommandError::Client(error)) if follow => error,
            Err(error) => return Err(error),
        };
        retry.after(error).await?;
        client.revive().await?;
        seen.resumed = true;
    }
}

async fn pass(
    client: &Client,
    target: &Target,
    seen: &mut Seen,
    retry: &mut Retry,
    caller: &mut Caller<'_>,
) -> Result<(), CommandError> {
    let mut lines = client.send(Call::get(target.clone())).await?.lines();
    while let Some(event) = lines.next_lively::<OutputEvent>().await? {
        retry.succeeded();
        let written = match event {
            OutputEvent::Output { stream, offset, data } => {
                let bytes = STANDARD.decode(data).map_err(|error| ClientError::Lost(error.into()))?;
                write(stream, &seen.fresh(stream, offset, bytes), caller)
            }
            OutputEvent::Gap { stream, bytes, .. } => {
                let name = if stream == StreamName::Stdout { "stdout" } else { "stderr" };
                writeln!(caller.stderr, "paddock: {} of {name} were not kept", format_bytes(bytes))
            }
            OutputEvent::Error { error } => {
                let text = if error.traceback.is_empty() {
                    format!("{}: {}", error.name, error.value)
                } else {
                    error.traceback
                };
                writeln!(caller.stderr, "{}", text.trim_end())
            }
            OutputEvent::Ended { .. } => return Ok(()),
            OutputEvent::Alive | OutputEvent::Result { .. } => Ok(()),
        };
        match written {
            // The reader has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other.map_err(CommandError::Output)?,
        }
    }
    Ok(())
}

fn write(stream: StreamName, bytes: &[u8], caller: &mut Caller<'_>) -> io::Result<()> {
    match stream {
        StreamName::Stdout => {
            caller.stdout.write_all(bytes)?;
            caller.stdout.flush()
        }
        StreamName::Stderr => caller.stderr.write_all(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_written_once_and_another_attempt_begins_anew() {
        let mut seen = Seen::default();
        let out = StreamName::Stdout;
        assert_eq!(seen.fresh(out, 0, b"abc".to_vec()), b"abc");
        seen.resumed = true;
        assert_eq!(seen.fresh(out, 0, b"abcde".to_vec()), b"de");
        assert_eq!(seen.fresh(out, 5, b"f".to_vec()), b"f");
        seen.resumed = false;
        assert_eq!(seen.fresh(out, 0, b"new".to_vec()), b"new");
    }
}
