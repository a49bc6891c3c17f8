//! `paddock logs`: the output of a command, from its first byte.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::work::LogsArgs;
use crate::caller::Caller;
use crate::live::{Output, Piece, Place, Start};
use crate::render;
use paddock_model::api::StreamName;
use paddock_model::format_bytes;
use serde_json::json;
use std::io;

pub fn execute(args: &LogsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        if args.list {
            let execs = client.execs(&args.id).await?;
            match args.json {
                true => print_json(&execs, caller)?,
                false => {
                    let now = render::time::now_ms();
                    print(&render::execs::text(&execs, now, caller.colour_on_stdout()), caller)?;
                }
            }
            return Ok(0);
        }
        let exec = match args.exec {
            Some(exec) => exec,
            None => {
                let latest = client.execs(&args.id).await?.into_iter().map(|exec| exec.exec).max();
                latest.ok_or_else(|| CommandError::NothingRan(args.id.clone()))?
            }
        };
        let place = Place { sandbox: args.id.clone(), exec };
        let mut output = Output::read(client, place, Start::default(), args.follow);
        while let Some(piece) = output.next().await? {
            let written = match args.json {
                true => write_json(&piece, caller),
                false => write_plain(&piece, caller),
            };
            match written {
                // The reader has read enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                other => other.map_err(CommandError::Output)?,
            }
        }
        Ok(0)
    })
}

/// The command's own bytes, each to the stream that it was written to.
fn write_plain(piece: &Piece, caller: &mut Caller) -> io::Result<()> {
    match piece {
        Piece::Bytes { stream: StreamName::Stdout, bytes } => {
            caller.stdout.write_all(bytes)?;
            caller.stdout.flush()
        }
        Piece::Bytes { stream: StreamName::Stderr, bytes } => caller.stderr.write_all(bytes),
        Piece::Gap { stream, bytes } => {
            let name = if *stream == StreamName::Stdout { "stdout" } else { "stderr" };
            writeln!(caller.stderr, "paddock: {} of {name} were not kept", format_bytes(*bytes))
        }
        Piece::Ended(_) => Ok(()),
    }
}

fn write_json(piece: &Piece, caller: &mut Caller) -> io::Result<()> {
    let value = match piece {
        Piece::Bytes { stream, bytes } => json!({ "stream": stream, "text": String::from_utf8_lossy(bytes) }),
        Piece::Gap { stream, bytes } => json!({ "stream": stream, "missing_bytes": bytes }),
        Piece::Ended(exec) => json!({ "exit_code": exec.exit_code, "cause": exec.cause }),
    };
    caller.stdout.write_all(render::json::line(&value)?.as_bytes())?;
    caller.stdout.flush()
}
