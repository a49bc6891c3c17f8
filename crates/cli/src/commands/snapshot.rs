//! `paddock snapshot`: named states of a sandbox's files.

use super::remote::{each, with_client};
use super::{CommandError, print, print_json};
use crate::args::copies::SnapshotAction;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{CreateSnapshot, Snapshot};

pub fn execute(action: SnapshotAction, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| match action {
        SnapshotAction::Create { id, name, live, files_only, json } => {
            let request = CreateSnapshot { name, live, memory: files_only.then_some(false) };
            let call = Call::new(Method::POST, Target::sandbox(&id).part("snapshots"));
            let snapshot: Snapshot = client.json(call.json(&request)?).await?;
            match json {
                true => print_json(&snapshot, caller)?,
                false => print(&format!("{}\n", render::escape::line(&snapshot.id)), caller)?,
            }
            Ok(0)
        }
        SnapshotAction::Ls { sandbox, name, json } => {
            let sandbox = match sandbox {
                // A snapshot knows the id of its sandbox, which may have ended long ago.
                Some(named) if !named.starts_with("sb-") => Some(client.sandbox(&named).await?.id),
                id => id,
            };
            let snapshots = client.snapshots(name.as_deref(), sandbox.as_deref()).await?;
            match json {
                true => print_json(&snapshots, caller)?,
                false => {
                    let now = render::time::now_ms();
                    print(&render::snapshots::text(&snapshots, now, caller.colour_on_stdout()), caller)?;
                }
            }
            Ok(0)
        }
        SnapshotAction::Rm { snapshots } => {
            each(&snapshots, caller, async |snapshot, caller| {
                client.done(Call::new(Method::DELETE, Target::new("/v1/snapshots").part(snapshot))).await?;
                print(&format!("{}\n", render::escape::line(snapshot)), caller)
            })
            .await
        }
    })
}
