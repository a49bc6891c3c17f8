//! `paddock template builds` and `paddock template log`: what was built, and how it went.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_model::api::{BuildLog, TemplateBuildPage};

/// The most that the server answers at one time.
const PAGE: usize = 1000;

pub fn list(json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let target = || Target::new("/v1/template-builds").query("limit", &PAGE.to_string());
    let builds = with_client(caller, async |client, _| {
        let mut builds = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let target = target().query_if("cursor", cursor.as_deref());
            let page: TemplateBuildPage = client.json(Call::get(target)).await?;
            builds.extend(page.builds);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(builds);
            }
        }
    })?;
    match json {
        true => print_json(&builds, caller),
        false => print(&render::template_builds::text(&builds, caller.colour_on_stdout()), caller),
    }
}

pub fn log(build: &str, json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let entries = with_client(caller, async |client, _| {
        let mut entries = Vec::new();
        loop {
            let target = Target::new("/v1/template-builds").part(build).part("log");
            let target = target.query("limit", &PAGE.to_string()).query("offset", &entries.len().to_string());
            let part: BuildLog = client.json(Call::get(target)).await?;
            let is_last = part.entries.len() < PAGE;
            entries.extend(part.entries);
            if is_last {
                return Ok(entries);
            }
        }
    })?;
    match json {
        true => print_json(&entries, caller),
        false => print(&render::template_builds::log(&entries), caller),
    }
}
