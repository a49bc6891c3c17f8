//! `paddock run --volume`: volumes are the server's, so the sandbox is one of its; everything else is as without.

use super::exec::exit_code;
use super::remote::with_client;
use super::{CommandError, create, print_json};
use crate::args::ports::PortFlags;
use crate::args::sandboxes::CreateArgs;
use crate::args::scan::ScanFlags;
use crate::args::{EXIT_PADDOCK_FAILED, EXIT_SIGNALED, RunArgs};
use crate::caller::Caller;
use crate::env_vars;
use crate::live::{self, Conversation, Finish, Place, Start};
use crate::once::{Begun, Once, unstored};
use crate::render;
use crate::session::signals::Signals;
use paddock_model::api::{Exec, MountedVolume, Sandbox, StartExec, VolumeMode};
use std::time::Duration;

/// The sandbox outlives its command by so much, should we not be there to end it.
const MARGIN: f64 = 120.0;
const DEFAULT_TIMEOUT: f64 = 3600.0;

pub fn execute(args: RunArgs, tty: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    let RunArgs { call, policy, volumes, command } = args;
    if call.explain {
        return Err(CommandError::ExplainVolume);
    }
    if command.is_empty() {
        return Err(CommandError::MissingCommand);
    }
    let json = call.json;
    let mut request = create::request(
        CreateArgs {
            name: None,
            template: call.template,
            snapshot: None,
            ttl: None,
            idle: None,
            persistent: false,
            under_pressure: None,
            live: None,
            live_forks: Some(false),
            metadata: Vec::new(),
            json: false,
            ports: PortFlags::default(),
            volumes,
            policy,
            scan: ScanFlags::default(),
        },
        caller,
    )?;
    let timeout = request.limits.exec_timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
    request.ttl_seconds = Some(timeout + MARGIN);
    let mut start = StartExec {
        argv: Some(command),
        open_stdin: !json,
        timeout_seconds: Some(timeout),
        terminal: tty.then(live::size),
        background: !json,
        ..StartExec::default()
    };
    if tty {
        let terminal = caller.environment.get(env_vars::TERM).and_then(|value| value.to_str());
        start.env.insert("TERM".into(), terminal.unwrap_or("xterm").into());
    }
    with_client(caller, async |client, caller| {
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let once = match Once::begin(client, request, Duration::ZERO, &mut signals).await? {
            Begun::Ready(once) => once,
            Begun::Interrupted(number) => return Ok(EXIT_SIGNALED + number),
        };
        let done = tokio::select! {
            done = inside(&once, &start, tty) => done,
            // If output is streamed, signals go to the command.
            number = signals.next_ending(), if json => Ok(Done::Signal(number)),
        };
        let failed = !matches!(&done, Ok(Done::Ended(exec)) if exec.exit_code == Some(0));
        let sandbox = once.end(failed).await;
        match done? {
            Done::Signal(number) => Ok(EXIT_SIGNALED + number),
            Done::Ended(exec) => tell(&exec, &sandbox?, json, caller),
        }
    })
}

enum Done {
    Ended(Box<Exec>),
    Signal(i32),
}

async fn inside(once: &Once, start: &StartExec, tty: bool) -> Result<Done, CommandError> {
    let started = once.client.start_exec(&once.id, start).await?;
    if !start.background {
        return Ok(Done::Ended(Box::new(started)));
    }
    let conversation = Conversation {
        client: once.client.clone(),
        place: Place { sandbox: once.id.clone(), exec: started.exec },
        from: Start::default(),
        stdin: true,
        tty,
        attached: false,
        all_to_stderr: false,
    };
    Ok(match conversation.hold().await? {
        Finish::Ended(exec) => Done::Ended(exec),
        // The sandbox does not stay, so the caller cannot come back to it.
        Finish::Detached => Done::Signal(libc::SIGHUP),
        Finish::Killed { signal } => Done::Signal(signal),
    })
}

/// A command that failed leaves its volumes as they were, unless `--on-failure commit` says otherwise.
fn not_committed(volume: &MountedVolume) -> Option<String> {
    let outcome = volume.outcome.as_deref()?;
    let kept = outcome.starts_with(MountedVolume::KEPT_ASIDE);
    if volume.mode != VolumeMode::Rw || !(kept || outcome.starts_with(MountedVolume::DISCARDED)) {
        return None;
    }
    Some(format!("the command failed, so nothing was committed to volume `{}`: {outcome}", volume.name))
}

fn tell(exec: &Exec, sandbox: &Sandbox, json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    if json {
        let mut told = serde_json::to_value(exec)?;
        told["volumes"] = serde_json::to_value(&sandbox.volumes)?;
        print_json(&told, caller)?;
    } else if let Some(remark) = render::execs::remark(exec, Some(sandbox)) {
        let _ = writeln!(caller.stderr, "paddock: {}", render::escape::line(&remark));
    }
    let mut code = exit_code(exec);
    for volume in sandbox.volumes.iter().filter(|_| !json && code != 0) {
        if let Some(words) = not_committed(volume) {
            let _ = writeln!(caller.stderr, "paddock: {}", render::escape::line(&words));
        }
    }
    for (volume, outcome) in unstored(&sandbox.volumes) {
        let (name, outcome) = (render::escape::line(&volume.name), render::escape::line(outcome));
        let _ = writeln!(caller.stderr, "paddock: volume `{name}`: {outcome}");
        code = EXIT_PADDOCK_FAILED;
    }
    Ok(code)
}
