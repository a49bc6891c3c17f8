//! `paddock agent`: a task for a model that works in a sandbox.

use super::remote::with_client;
use super::{CommandError, create};
use crate::agent::screen::Screen;
use crate::agent::session::{Conversation, Outcome, Session};
use crate::agent::{AgentError, settings};
use crate::args::EXIT_SIGNALED;
use crate::args::agent::{AgentArgs, SandboxMode};
use crate::args::ports::PortFlags;
use crate::args::sandboxes::CreateArgs;
use crate::args::values::Ttl;
use crate::caller::Caller;
use crate::client::operations::RemoteHost;
use crate::render::style::Style;
use crate::session::signals::Signals;
use crate::state;
use paddock_agent::Client;
use paddock_model::api::{CreateSandbox, TtlAction};
use std::io::{BufRead, Read};
use std::path::Path;

const LARGEST_TASK: u64 = 1 << 20;
/// A sandbox outlives its task by so much, should we not be there to end it.
const MARGIN: f64 = 120.0;
const HOUR: f64 = 3600.0;

pub fn execute(mut args: AgentArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let endpoint = settings::endpoint(&args, &caller.environment)?;
    let client = Client::new(endpoint, settings::silence(&args)).map_err(AgentError::from)?;
    let (budget, patience, stays) = (settings::budget(&args), settings::patience(&args), stays(&args)?);
    let task = task(&mut args, caller)?;
    let state_dir = state::prepare(&caller.environment)?;
    let (transcript, system, json) = (args.transcript.take(), args.system.take(), args.json);
    let conversation = match &args.session {
        Some(id) => Conversation::open(&state_dir, id)?,
        None => Conversation::begin(&state_dir, transcript.as_deref())?,
    };
    let create = request(args, budget.time.as_secs_f64(), stays, caller)?;
    with_client(caller, async |server, caller| {
        let mut signals = Signals::listen().map_err(AgentError::Signals)?;
        let (terminal, colour) = (caller.terminals.stdout, caller.colour_on_stderr());
        let mut screen = Screen {
            stdout: &mut *caller.stdout,
            stderr: &mut *caller.stderr,
            json,
            terminal,
            colour,
            open: false,
            total: Default::default(),
        };
        let host = RemoteHost { client: server };
        let mut session =
            Session { client: &client, host, create, budget, patience, system, stays, conversation };
        let code = match task {
            Some(task) => code(session.task(task, &mut signals, &mut screen).await?),
            None => asked(&mut session, &mut signals, &mut screen, &state_dir).await?,
        };
        if !json && transcript.is_none() {
            let id = &session.conversation.id;
            screen.note(
                &format!("paddock: session {id}; `paddock agent --continue {id} TASK` goes on"),
                Style::Plain,
            );
        }
        Ok(code)
    })
}

fn stays(args: &AgentArgs) -> Result<bool, AgentError> {
    match (args.sandbox, &args.session) {
        (Some(SandboxMode::PerTask), Some(_)) => Err(AgentError::Modes),
        (Some(SandboxMode::PerSession), _) | (None, Some(_)) => Ok(true),
        _ => Ok(false),
    }
}

fn code(outcome: Outcome) -> i32 {
    match outcome {
        Outcome::Ended(code) => code,
        Outcome::Signal(number) => EXIT_SIGNALED + number,
    }
}

/// Tasks from a person, line by line. Without a sandbox that stays, each is a conversation of its own.
async fn asked(
    session: &mut Session<'_>,
    signals: &mut Signals,
    screen: &mut Screen<'_>,
    state_dir: &Path,
) -> Result<i32, CommandError> {
    let mut last = 0;
    let mut first = true;
    loop {
        let _ = write!(screen.stderr, "task> ").and_then(|()| screen.stderr.flush());
        // The read goes on after its caller has given up; the end of the process ends it.
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|count| (count > 0).then_some(line))
        });
        let line = tokio::select! {
            line = line => line.map_err(|error| AgentError::Input(std::io::Error::other(error)))?.map_err(AgentError::Input)?,
            number = signals.next_ending() => return Ok(EXIT_SIGNALED + number),
        };
        let Some(line) = line else { return Ok(last) };
        if line.trim().is_empty() {
            continue;
        }
        if !session.stays && !std::mem::take(&mut first) {
            session.conversation = Conversation::begin(state_dir, None)?;
        }
        last = match session.task(line.trim().to_string(), signals, screen).await? {
            Outcome::Ended(code) => code,
            Outcome::Signal(number) if number == libc::SIGINT => EXIT_SIGNALED + number,
            Outcome::Signal(number) => return Ok(EXIT_SIGNALED + number),
        };
    }
}

/// `None` if a person is to be asked for the task.
fn task(args: &mut AgentArgs, caller: &mut Caller) -> Result<Option<String>, AgentError> {
    if let Some(task) = args.task.take() {
        return if task.trim().is_empty() { Err(AgentError::NoTask) } else { Ok(Some(task)) };
    }
    if caller.terminals.stdin && !args.json {
        return Ok(None);
    }
    let mut text = String::new();
    let read = caller.stdin.take(LARGEST_TASK + 1).read_to_string(&mut text);
    read.map_err(AgentError::Input)?;
    match text.trim() {
        _ if text.len() as u64 > LARGEST_TASK => Err(AgentError::TaskTooLarge),
        "" => Err(AgentError::NoTask),
        _ => Ok(Some(text)),
    }
}

fn request(args: AgentArgs, time: f64, stays: bool, caller: &Caller) -> Result<CreateSandbox, CommandError> {
    let ttl = if stays { HOUR.max(time + MARGIN) } else { time + MARGIN };
    let request = CreateArgs {
        name: None,
        template: args.template,
        snapshot: None,
        ttl: Some(Ttl { seconds: ttl, action: TtlAction::Kill }),
        idle: None,
        persistent: false,
        under_pressure: None,
        live: None,
        live_forks: None,
        metadata: Vec::new(),
        json: false,
        ports: PortFlags::default(),
        volumes: args.volumes,
        policy: args.policy,
        scan: args.scan,
    };
    create::request(request, caller)
}
