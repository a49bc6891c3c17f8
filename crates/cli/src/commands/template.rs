//! `paddock template`: named settings.

use super::{CommandError, print, print_json, template_build, template_builds};
use crate::args::{TemplateAction, TemplateAddArgs};
use crate::caller::Caller;
use crate::{layers, render, state};
use paddock_model::{Policy, format_bytes};
use paddock_settings::{SettingsError, Surroundings, templates};

pub fn execute(action: TemplateAction, caller: &mut Caller) -> Result<i32, CommandError> {
    match action {
        TemplateAction::Ls { json } => ls(json, caller)?,
        TemplateAction::Add(args) => add(*args, caller)?,
        TemplateAction::Show { name, json } => show(&name, json, caller)?,
        TemplateAction::Build(args) => return template_build::execute(args, caller),
        TemplateAction::Builds { json } => template_builds::list(json, caller)?,
        TemplateAction::Log { build, json } => template_builds::log(&build, json, caller)?,
        TemplateAction::Rm { name } => {
            let state_dir = state::prepare(&caller.environment)?;
            templates::remove(&state_dir, &name)?;
            paddock_builds::free(&state_dir, &name)?;
        }
        TemplateAction::Prune { json } => prune(json, caller)?,
    }
    Ok(0)
}

fn ls(json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let state_dir = state::prepare(&caller.environment)?;
    let mut rows = Vec::new();
    for listed in templates::list(&state_dir)? {
        let image = listed.settings.as_ref().ok().and_then(|policy| policy.image.as_deref());
        let built = paddock_builds::record_of(&state_dir, &listed.name, image)?;
        rows.push((listed, built));
    }
    let building = paddock_builds::first_builds(&state_dir);
    if json {
        print_json(&render::templates::json(&rows, &building), caller)
    } else {
        print(&render::templates::text(&rows, &building, caller.colour_on_stdout()), caller)
    }
}

fn prune(json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let pruned = paddock_builds::prune(&state::prepare(&caller.environment)?)?;
    if json {
        let body =
            serde_json::json!({ "layers": pruned.layers, "bytes": pruned.bytes, "in_use": pruned.in_use });
        return print_json(&body, caller);
    }
    let more = match pruned.in_use {
        0 => String::new(),
        count => format!("; {count} more are in use"),
    };
    print(&format!("{} layers removed, {}{more}\n", pruned.layers, format_bytes(pruned.bytes)), caller)
}

/// The settings are checked now, and not when the template is used.
fn add(args: TemplateAddArgs, caller: &mut Caller) -> Result<(), CommandError> {
    let environment = &caller.environment;
    let state_dir = state::prepare(environment)?;
    let mut layers = layers::gather(None, args.policy, args.command, environment, &state_dir)?;
    layers.push(args.scan.layer());
    let ports = args.ports.settings().map_err(SettingsError::from)?;
    layers.push(Policy { ports, ..Policy::default() });
    let policy = layers.into_iter().fold(Policy::default(), Policy::overlaid_by);
    let surroundings =
        Surroundings { state_dir: &state_dir, home: environment.home(), backends: caller.backends };
    paddock_settings::resolve(std::slice::from_ref(&policy), surroundings)?;
    Ok(templates::save(&state_dir, &args.name, &policy, args.force)?)
}

fn show(name: &str, json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let policy = templates::load(&state::prepare(&caller.environment)?, name)?;
    match json {
        true => print_json(&policy, caller),
        // TOML has escapes for control characters, but not all that move a terminal need them.
        false if caller.terminals.stdout => {
            print(&render::escape::lines(&templates::to_toml(&policy)?), caller)
        }
        false => print(&templates::to_toml(&policy)?, caller),
    }
}
