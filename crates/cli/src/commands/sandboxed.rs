//! The steps that `run` and `code` share: flags to a session, and the session to its end or its explanation.

use super::{CommandError, print, print_json};
use crate::args::scan::ScanFlags;
use crate::args::{CallFlags, EXIT_PADDOCK_FAILED, PolicyFlags};
use crate::caller::{Caller, Terminals};
use crate::session::{self, Session, StdinMode};
use crate::{explain, layers, state};
use paddock_model::Policy;
use paddock_settings::Surroundings;

#[derive(Debug, PartialEq, Eq)]
pub struct Streams {
    stdin: StdinMode,
    pub tty: bool,
}

impl Streams {
    /// As a Docker user expects `-i` and `-t`; without either, a terminal on both ends is used as one.
    pub fn chosen(call: &CallFlags, terminals: Terminals, stdin: StdinMode) -> Result<Streams, CommandError> {
        let terminal_in = terminals.stdin && stdin == StdinMode::Inherit;
        let tty = match (call.tty, call.json) {
            (true, true) => return Err(CommandError::TerminalAndJson),
            (true, false) if !terminal_in && !call.explain => return Err(CommandError::NotATerminal),
            (true, false) => true,
            (false, json) => terminal_in && terminals.stdout && !json && !call.interactive,
        };
        Ok(Streams { stdin, tty })
    }
}

/// `below`: layers under all that the caller names, the lowest first.
pub fn session(
    below: Vec<Policy>,
    call: CallFlags,
    policy: PolicyFlags,
    scan: ScanFlags,
    command: Vec<String>,
    streams: Streams,
    caller: &Caller,
) -> Result<Session, CommandError> {
    let environment = &caller.environment;
    // An explanation changes nothing, not even the state directory.
    let state_dir = if call.explain { state::locate(environment)? } else { state::prepare(environment)? };
    let names_protected = !(policy.protect.is_empty() && policy.unprotect.is_empty());
    let mut layers = below;
    layers.extend(layers::gather(call.template.as_deref(), policy, command, environment, &state_dir)?);
    layers.push(scan.layer());
    // A sandbox that ends with its command is never forked.
    layers.push(Policy { live_forks: Some(false), ..Policy::default() });
    let surroundings =
        Surroundings { state_dir: &state_dir, home: environment.home(), backends: caller.backends };
    let settings = paddock_settings::resolve(&layers, surroundings)?;
    if names_protected && settings.spec.workspace.is_none() {
        return Err(CommandError::NoWorkspace);
    }
    Ok(Session {
        state_dir,
        backend: settings.backend,
        image: settings.image,
        spec: settings.spec,
        argv: settings.command,
        env: settings.env,
        cwd: settings.cwd,
        stdin: streams.stdin,
        tty: streams.tty,
        json: call.json,
        file: None,
        scanned: Default::default(),
        secrets: settings.secrets,
        host_certs: settings.host_certs,
        first: None,
        listener: None,
        backends: caller.backends,
    })
}

/// If the sandbox would be refused, the explanation ends with the refusal's exit code.
pub fn run_or_explain(session: Session, explain: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    if !explain {
        return Ok(session::run(session)?);
    }
    let guarantees = session::explain(&session)?;
    if session.json {
        print_json(&explain::json(&session, &guarantees), caller)?;
    } else {
        print(&explain::text(&session, &guarantees, caller.colour_on_stdout()), caller)?;
    }
    let refused = !explain::unmet(&session, &guarantees).is_empty();
    Ok(if refused { EXIT_PADDOCK_FAILED } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Terminals = Terminals { stdin: true, stdout: true, stderr: true };
    const PIPED: Terminals = Terminals { stdin: false, stdout: true, stderr: true };

    fn tty(call: CallFlags, terminals: Terminals, stdin: StdinMode) -> Result<bool, String> {
        Streams::chosen(&call, terminals, stdin).map(|streams| streams.tty).map_err(|error| error.to_string())
    }

    #[test]
    fn a_terminal_is_used_as_a_docker_user_expects() {
        let call = CallFlags::default;
        let inherit = || StdinMode::Inherit;
        assert_eq!(tty(call(), BOTH, inherit()), Ok(true));
        assert_eq!(tty(call(), PIPED, inherit()), Ok(false));
        assert_eq!(tty(CallFlags { json: true, ..call() }, BOTH, inherit()), Ok(false));
        assert_eq!(tty(CallFlags { interactive: true, ..call() }, BOTH, inherit()), Ok(false));
        assert_eq!(tty(CallFlags { interactive: true, tty: true, ..call() }, BOTH, inherit()), Ok(true));
        let forced = || CallFlags { tty: true, ..call() };
        assert_eq!(tty(forced(), PIPED, inherit()), Err("the input device is not a TTY".into()));
        assert_eq!(tty(forced(), BOTH, StdinMode::None), Err("the input device is not a TTY".into()));
        assert!(tty(CallFlags { json: true, ..forced() }, BOTH, inherit()).is_err());
    }
}
