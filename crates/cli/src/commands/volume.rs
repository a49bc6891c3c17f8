//! `paddock volume`: directories that outlive sandboxes.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::volume::{LiveFlag, VersionFlag, VolumeAction};
use crate::caller::Caller;
use crate::client::{Call, Client, Target};
use crate::copy::{CopyError, download, upload};
use crate::render;
use crate::render::time::now_ms;
use paddock_client::Method;
use paddock_model::api::{
    ChangeMode, CreateVolume, MakeDirectory, MountedVolume, RestoreVolume, ShareVolume, Volume, VolumeFiles,
    VolumeHistory, VolumeList, VolumeMode, VolumeVersion,
};
use std::path::Path;

pub fn execute(action: VolumeAction, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let colour = caller.colour_on_stdout();
        match action {
            VolumeAction::Create { name } => {
                let call = Call::new(Method::POST, Target::new("/v1/volumes"));
                let made: Volume = client.json(call.json(&CreateVolume { name })?).await?;
                say(&made.name, caller)?;
            }
            VolumeAction::Ls { json } => {
                let listed: VolumeList = client.json(Call::get(Target::new("/v1/volumes"))).await?;
                let volumes = listed.volumes;
                match json {
                    true => print_json(&volumes, caller)?,
                    false => print(&render::volumes::list(&volumes, now_ms(), colour), caller)?,
                }
            }
            VolumeAction::Show { name } => {
                let volume: Volume = client.json(Call::get(target(&name, &[]))).await?;
                print_json(&volume, caller)?;
            }
            VolumeAction::Files { name, path, version, live, json } => {
                let target = live_if(versioned(target(&name, &["files"]), &version), &live);
                let target = target.query_if("path", path.as_deref());
                let listed: VolumeFiles = client.json(Call::get(target)).await?;
                let files = listed.files;
                if listed.truncated {
                    let _ = writeln!(caller.stderr, "paddock: there is more: name a path below");
                }
                match json {
                    true => print_json(&files, caller)?,
                    false => print(&render::volumes::files(&files, now_ms(), colour), caller)?,
                }
            }
            VolumeAction::Get { name, path, to, version, live } => {
                let target = versioned(target(&name, &["files", "content"]), &version).query("path", &path);
                let target = live_if(target, &live);
                let answer = client.send(Call::get(target)).await?;
                match to {
                    Some(to) => download::whole(answer, &to, 0o644).await?,
                    None => download::pour(answer, caller.stdout).await?,
                }
            }
            VolumeAction::Put { name, from, path, live } => {
                let version = put(&client, live_if(target(&name, &["files", "content"]), &live), &from, path);
                say(&version.await?.version.to_string(), caller)?;
            }
            VolumeAction::Mkdir { name, path, parents, live } => {
                let call = Call::new(Method::POST, live_if(target(&name, &["files", "directory"]), &live));
                let call = call.json(&MakeDirectory { path, mode: None, parents })?;
                let version: VolumeVersion = client.json(call).await?;
                say(&version.version.to_string(), caller)?;
            }
            VolumeAction::Chmod { name, mode, path, live } => {
                let call = Call::new(Method::POST, live_if(target(&name, &["files", "mode"]), &live));
                let version: VolumeVersion = client.json(call.json(&ChangeMode { path, mode })?).await?;
                say(&version.version.to_string(), caller)?;
            }
            VolumeAction::Rm { name, path: None, .. } => {
                client.done(Call::new(Method::DELETE, target(&name, &[]))).await?;
                say(&name, caller)?;
            }
            VolumeAction::Rm { name, path: Some(path), live } => {
                let target = live_if(target(&name, &["files"]).query("path", &path), &LiveFlag { live });
                let call = Call::new(Method::DELETE, target);
                let version: VolumeVersion = client.json(call).await?;
                say(&version.version.to_string(), caller)?;
            }
            VolumeAction::Share { name, tenant, mode, stop } => {
                let mode = (!stop).then(|| VolumeMode::from(mode));
                let call = Call::new(Method::POST, target(&name, &["share"]));
                let shared: Volume = client.json(call.json(&ShareVolume { tenant, mode })?).await?;
                print(&render::volumes::list(&[shared], now_ms(), colour), caller)?;
            }
            VolumeAction::History { name, json } => {
                let listed: VolumeHistory = client.json(Call::get(target(&name, &["history"]))).await?;
                let versions = listed.versions;
                match json {
                    true => print_json(&versions, caller)?,
                    false => print(&render::volumes::history(&versions, now_ms(), colour), caller)?,
                }
            }
            VolumeAction::Restore { name, version } => {
                let call = Call::new(Method::POST, target(&name, &["restore"]));
                let restored: VolumeVersion = client.json(call.json(&RestoreVolume { version })?).await?;
                say(&restored.version.to_string(), caller)?;
            }
            VolumeAction::Checkpoint { sandbox, name } => {
                let target = Target::sandbox(&sandbox).part("volumes").part(&name).part("checkpoint");
                let volume: MountedVolume = client.json(Call::new(Method::POST, target)).await?;
                say(&volume.version.unwrap_or(0).to_string(), caller)?;
            }
        }
        Ok(0)
    })
}

async fn put(
    client: &Client,
    target: Target,
    from: &Path,
    path: Option<String>,
) -> Result<VolumeVersion, CommandError> {
    let own = || from.file_name().and_then(|name| name.to_str()).map(str::to_string);
    let path = path.or_else(own).ok_or(CopyError::NotText)?;
    Ok(upload::file(client, target.query("path", &path), from).await?)
}

/// NAME, or TENANT/NAME of one that was shared.
fn target(name: &str, parts: &[&str]) -> Target {
    let (tenant, name) = match name.split_once('/') {
        Some((tenant, name)) => (Some(tenant), name),
        None => (None, name),
    };
    let target = parts.iter().fold(Target::new("/v1/volumes").part(name), |target, part| target.part(part));
    target.query_if("tenant", tenant)
}

fn versioned(target: Target, flag: &VersionFlag) -> Target {
    target.query_if("version", flag.version.map(|version| version.to_string()).as_deref())
}

fn live_if(target: Target, flag: &LiveFlag) -> Target {
    target.query_if("live", flag.live.then_some("true"))
}

fn say(text: &str, caller: &mut Caller) -> Result<(), CommandError> {
    print(&format!("{}\n", render::escape::line(text)), caller)
}
