//! `paddock diff`: the changes of a sandbox.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::copies::{DiffArgs, SinceName};
use crate::caller::Caller;
use crate::client::{Call, Client, Target};
use crate::render;
use paddock_model::api::Changes;
use std::io::{self, Write};
use std::path::Path;

pub fn execute(args: &DiffArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let since = match args.since {
        SinceName::Start => "start",
        SinceName::Snapshot => "snapshot",
        SinceName::Parent => "parent",
    };
    let changes = Target::sandbox(&args.id).part("changes");
    with_client(caller, async |client, caller| {
        if args.patch {
            let patch =
                client.send(Call::get(changes.part("patch").query("since", since))).await?.whole().await?;
            let patch = String::from_utf8_lossy(&patch);
            // The text of files is from inside; a program that applies the patch needs it as it is.
            match caller.terminals.stdout {
                true => print(&render::escape::lines(&patch.replace('\t', "    ")), caller)?,
                false => print(&patch, caller)?,
            }
        } else if let Some(file) = &args.tar {
            archive(&client, changes.part("archive").query("since", since), file, caller).await?;
        } else {
            let changes: Changes = client.json(Call::get(changes.query("since", since))).await?;
            match args.json {
                true => print_json(&changes, caller)?,
                false => print(&render::changes::text(&changes.changes, caller.colour_on_stdout()), caller)?,
            }
        }
        Ok(0)
    })
}

/// A file appears when all of it is there.
async fn archive(
    client: &Client,
    target: Target,
    file: &Path,
    caller: &mut Caller<'_>,
) -> Result<(), CommandError> {
    let mut answer = client.send(Call::get(target)).await?;
    if file == Path::new("-") {
        while let Some(bytes) = answer.next().await? {
            caller.stdout.write_all(&bytes).map_err(CommandError::Output)?;
        }
        return Ok(());
    }
    let failed = |source: io::Error| CommandError::File { path: file.to_path_buf(), source };
    let directory = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut written = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    while let Some(bytes) = answer.next().await? {
        written.write_all(&bytes).map_err(failed)?;
    }
    written.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}
