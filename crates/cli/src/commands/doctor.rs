//! `paddock doctor`: what this machine has and lacks.

use super::{CommandError, print, print_json};
use crate::args::DoctorArgs;
use crate::caller::Caller;
use crate::{render, session, state};

pub fn execute(args: &DoctorArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let backends = session::doctor(&state::prepare(&caller.environment)?);
    if args.json {
        print_json(&backends, caller)?;
    } else {
        print(&render::doctor::text(&backends, caller.colour_on_stdout()), caller)?;
    }
    Ok(if backends.iter().any(|backend| backend.usable) { 0 } else { 1 })
}
