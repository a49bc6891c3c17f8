//! `paddock doctor`: the abilities of this host, its missing parts, and a check that it can hold a number of sandboxes.

use super::{CommandError, print, print_json};
use crate::args::DoctorArgs;
use crate::caller::Caller;
use crate::{render, session, state};
use paddock_fleet::capacity;
use paddock_model::{Availability, Capacity};
use serde::Serialize;

/// The JSON of `doctor --for`.
#[derive(Serialize)]
struct Report<'a> {
    backends: &'a [Availability],
    capacity: &'a Capacity,
}

pub fn execute(args: &DoctorArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state = state::prepare(&caller.environment)?;
    let backends = session::doctor(&state, caller.backends);
    let capacity = args.sandboxes.map(|sandboxes| capacity::look(&state, sandboxes.into()));
    match (&capacity, args.json) {
        (None, true) => print_json(&backends, caller)?,
        (Some(capacity), true) => print_json(&Report { backends: &backends, capacity }, caller)?,
        (capacity, false) => {
            let colour = caller.colour_on_stdout();
            let mut text = render::doctor::text(&backends, colour);
            if let Some(capacity) = capacity {
                text.push('\n');
                text.push_str(&render::capacity::text(capacity, colour));
            }
            print(&text, caller)?;
        }
    }
    let usable = backends.iter().any(|backend| backend.usable);
    let enough = capacity.is_none_or(|capacity| capacity.enough);
    Ok(if usable && enough { 0 } else { 1 })
}
