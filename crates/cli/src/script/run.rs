//! The plan carried out: a sandbox, files, the command with its output, its result, the end.

use super::ScriptCommandError;
use super::report::Ran;
use super::source::Source;
use crate::args::EXIT_SIGNALED;
use crate::client::{Call, Client, ClientError, Target};
use crate::commands::CommandError;
use crate::live::{Conversation, Finish, LiveError, Place, Start};
use crate::once::{Begun, Once};
use crate::session::signals::Signals;
use paddock_client::Method;
use paddock_model::api::{Exec, ExecCause, Resource, Sandbox, StartExec};
use paddock_scripts::{Arguments, Context, Failure, LARGEST_RESULT, Plan, needs, not_started, plan};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How a call behaves, as opposed to the properties of its sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// For a volume that another sandbox writes to.
    pub patience: Duration,
    /// The script's output is kept for the end.
    pub silent: bool,
}

pub enum Outcome {
    Ran(Box<Ran>),
    Signal(i32),
}

/// Everything that can be wrong before it runs.
pub async fn prepare(
    client: &Client,
    source: &Source,
    arguments: &Arguments,
    context: Context,
) -> Result<Plan, CommandError> {
    let wrong = |error| source.wrong(error);
    let names = needs(&source.text, source.language, arguments).map_err(wrong)?;
    let resources = resources(client, &names).await?;
    let context = Context { resources, ..context };
    Ok(plan(&source.text, source.language, arguments, &context).map_err(wrong)?)
}

/// The existing resources among these names; the plan tells which one is missing.
async fn resources(
    client: &Client,
    names: &[String],
) -> Result<BTreeMap<String, paddock_scripts::Resource>, ClientError> {
    let mut found = BTreeMap::new();
    for name in names {
        let target = Target::new("/v1/resources").part(name);
        match client.json::<Resource>(Call::get(target)).await {
            Ok(Resource { kind, value, secrets, .. }) => {
                let value = value.unwrap_or(Value::Null);
                found.insert(name.clone(), paddock_scripts::Resource { kind, value, secrets });
            }
            Err(error) if error.code() == Some("resource_not_found") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

pub async fn carry_out(client: Arc<Client>, plan: Plan, manner: Manner) -> Result<Outcome, CommandError> {
    let mut signals = Signals::listen().map_err(ScriptCommandError::Signals)?;
    let begun = Once::begin(client, plan.sandbox.clone(), manner.patience, &mut signals).await?;
    let once = match begun {
        Begun::Ready(once) => once,
        Begun::Interrupted(number) => return Ok(Outcome::Signal(number)),
    };
    let passed_on = Cell::new(None);
    let done = tokio::select! {
        done = inside(&once, &plan, manner) => done,
        number = early(&mut signals, &once, manner, &passed_on) => Ok(Inside::Signal(number)),
    };
    let failed = !matches!(&done, Ok(Inside::Ended(ended)) if ended.result.is_ok());
    let sandbox: Result<Sandbox, ClientError> = once.end(failed).await;
    match done? {
        Inside::Signal(number) => Ok(Outcome::Signal(number)),
        Inside::Ended(ended) => {
            let Ended { exec, result } = *ended;
            // The caller's Ctrl-C ended it, whatever exit code its interpreter made of that.
            if let (Some(number), Err(_)) = (passed_on.get(), &result) {
                sandbox?;
                return Ok(Outcome::Signal(number));
            }
            Ok(Outcome::Ran(Box::new(Ran { exec, result, sandbox: sandbox? })))
        }
    }
}

/// The conversation passes signals on to the script; this is for when there is none, or not yet.
async fn early(signals: &mut Signals, once: &Once, manner: Manner, passed_on: &Cell<Option<i32>>) -> i32 {
    loop {
        let number = signals.next_ending().await;
        passed_on.set(Some(number));
        if manner.silent {
            return number;
        }
        let running = once.client.execs(&once.id).await;
        if !running.is_ok_and(|execs| !execs.is_empty()) {
            return number;
        }
    }
}

enum Inside {
    Ended(Box<Ended>),
    Signal(i32),
}

struct Ended {
    exec: Exec,
    result: Result<Value, Failure>,
}

async fn inside(once: &Once, plan: &Plan, manner: Manner) -> Result<Inside, CommandError> {
    let (client, id) = (&once.client, once.id.as_str());
    for file in &plan.files {
        let target = Target::sandbox(id).part("files").part("content").query("path", &file.path);
        let target = target.query("parents", "true");
        client.done(Call::new(Method::PUT, target).bytes(file.content.clone().into())).await?;
    }
    let request = StartExec { background: !manner.silent, ..plan.exec.clone() };
    let started = client.start_exec(id, &request).await?;
    let exec = match manner.silent {
        true => started,
        false => match follow(once, started.exec).await? {
            Finish::Ended(exec) => *exec,
            Finish::Detached => started,
            Finish::Killed { signal } => return Ok(Inside::Signal(signal)),
        },
    };
    let exit_code = exec.exit_code.unwrap_or(EXIT_SIGNALED + libc::SIGKILL);
    if let Some(ExecCause::NotStarted { detail }) = &exec.cause {
        let result = Err(not_started(plan.language, exit_code, detail));
        return Ok(Inside::Ended(Box::new(Ended { exec, result })));
    }
    let mut contents = Vec::new();
    for file in &plan.result.files {
        contents.push(bounded(client, id, &file.path).await?);
    }
    let needs_line = plan.result.last_line && exit_code == 0 && contents.iter().all(Option::is_none);
    let stdout = match needs_line {
        true if !manner.silent => client.exec(id, exec.exec).await?.stdout,
        true => exec.stdout.clone(),
        false => String::new(),
    };
    let result = plan.result.conclude(exit_code, &contents, stdout.as_bytes());
    Ok(Inside::Ended(Box::new(Ended { exec, result })))
}

/// All that it prints goes to standard error: standard output is for the result.
async fn follow(once: &Once, exec: u32) -> Result<Finish, LiveError> {
    let conversation = Conversation {
        client: once.client.clone(),
        place: Place { sandbox: once.id.clone(), exec },
        from: Start::default(),
        stdin: false,
        tty: false,
        attached: false,
        all_to_stderr: true,
    };
    conversation.hold().await
}

/// At most one byte more than a result may have. `None` if the file is not there, or is no file.
async fn bounded(client: &Client, id: &str, path: &str) -> Result<Option<Vec<u8>>, ClientError> {
    let target = Target::sandbox(id).part("files").part("content").query("path", path);
    let mut answer = match client.send(Call::get(target)).await {
        Ok(answer) => answer,
        // The sandbox may have ended with its script; anything else that is no file is no result.
        Err(ClientError::Refused { status, .. }) if (400..500).contains(&status) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    while let Some(bytes) = answer.next().await? {
        content.extend_from_slice(&bytes);
        if content.len() > LARGEST_RESULT {
            content.truncate(LARGEST_RESULT + 1);
            break;
        }
    }
    Ok(Some(content))
}
