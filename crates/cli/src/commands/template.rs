//! `paddock template`: named settings.

use super::{CommandError, print, print_json};
use crate::args::{TemplateAction, TemplateAddArgs};
use crate::caller::Caller;
use crate::{layers, render, state};
use paddock_engine::settings::{self, Surroundings};
use paddock_engine::templates;
use paddock_model::Policy;

pub fn execute(action: TemplateAction, caller: &mut Caller) -> Result<i32, CommandError> {
    match action {
        TemplateAction::Ls { json } => ls(json, caller)?,
        TemplateAction::Add(args) => add(*args, caller)?,
        TemplateAction::Show { name, json } => show(&name, json, caller)?,
        TemplateAction::Rm { name } => templates::remove(&state::prepare(&caller.environment)?, &name)?,
    }
    Ok(0)
}

fn ls(json: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let listed = templates::list(&state::prepare(&caller.environment)?)?;
    if json {
        print_json(&render::templates::json(&listed), caller)
    } else {
        print(&render::templates::text(&listed, caller.colour_on_stdout()), caller)
    }
}

/// The settings are checked now, and not when the template is used.
fn add(args: TemplateAddArgs, caller: &mut Caller) -> Result<(), CommandError> {
    let environment = &caller.environment;
    let state_dir = state::prepare(environment)?;
    let mut layers = layers::gather(None, args.policy, args.command, environment, &state_dir)?;
    layers.push(args.scan.layer());
    let policy = layers.into_iter().fold(Policy::default(), Policy::overlaid_by);
    let surroundings = Surroundings { state_dir: &state_dir, home: environment.home() };
    settings::resolve(std::slice::from_ref(&policy), surroundings)?;
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
