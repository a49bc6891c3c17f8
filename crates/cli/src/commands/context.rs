//! `paddock context`: interpreters in a sandbox that remember, and code in them.

use super::code::read_all;
use super::exec::conclude;
use super::remote::with_client;
use super::{CommandError, print, print_json, scan};
use crate::args::EXIT_PADDOCK_FAILED;
use crate::args::context::{ContextAction, ContextRunArgs, OneContext};
use crate::caller::Caller;
use crate::client::{Call, Client, ClientError, Target};
use crate::live::{Conversation, Place, Start};
use crate::{env_file, render};
use paddock_client::Method;
use paddock_model::ScanReport;
use paddock_model::api::{Context, CreateContext, Exec, RunCode};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Contexts {
    contexts: Vec<Context>,
}

#[derive(Deserialize)]
struct Interrupted {
    interrupted: bool,
}

pub fn execute(action: ContextAction, caller: &mut Caller) -> Result<i32, CommandError> {
    match action {
        ContextAction::Run(args) => run(*args, caller),
        ContextAction::Ls { id, json } => with_client(caller, async |client, caller| {
            let listed: Contexts = client.json(Call::get(Target::sandbox(&id).part("contexts"))).await?;
            match json {
                true => print_json(&listed.contexts, caller)?,
                false => {
                    let now = render::time::now_ms();
                    print(&render::contexts::text(&listed.contexts, now, caller.colour_on_stdout()), caller)?;
                }
            }
            Ok(0)
        }),
        ContextAction::Create { id, name, language, cwd } => with_client(caller, async |client, caller| {
            let body = CreateContext { id: name, language, cwd, ..CreateContext::default() };
            let call = Call::new(Method::POST, Target::sandbox(&id).part("contexts")).json(&body)?;
            let made: Context = client.json(call).await?;
            print(&format!("{}\n", render::escape::line(&made.id)), caller)?;
            Ok(0)
        }),
        ContextAction::Restart(one) => with_client(caller, async |client, caller| {
            let _: Context = client.json(Call::new(Method::POST, target(&one).part("restart"))).await?;
            print(&format!("{}\n", render::escape::line(&one.context)), caller)?;
            Ok(0)
        }),
        ContextAction::Interrupt(one) => with_client(caller, async |client, caller| {
            let call = Call::new(Method::POST, target(&one).part("interrupt"));
            let answer: Interrupted = client.json(call).await?;
            if !answer.interrupted {
                let _ = writeln!(caller.stderr, "paddock: nothing ran in it");
            }
            Ok(0)
        }),
        ContextAction::Rm(one) => with_client(caller, async |client, caller| {
            client.done(Call::new(Method::DELETE, target(&one))).await?;
            print(&format!("{}\n", render::escape::line(&one.context)), caller)?;
            Ok(0)
        }),
    }
}

fn target(one: &OneContext) -> Target {
    Target::sandbox(&one.id).part("contexts").part(&one.context)
}

fn run(args: ContextRunArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let code = match args.source.as_str() {
        "-" => String::from_utf8_lossy(&read_all(caller.stdin)?).into_owned(),
        text => text.to_string(),
    };
    let mut env = BTreeMap::new();
    for text in &args.env {
        env.extend(
            env_file::parse_variable(text, &caller.environment).map_err(crate::layers::LayerError::from)?,
        );
    }
    let request = RunCode {
        code,
        language: args.language,
        context: args.context,
        stdin: None,
        env,
        cwd: args.cwd,
        timeout_seconds: args.timeout,
        background: !args.json,
        stream: false,
    };
    with_client(caller, async |client, caller| {
        let answer = client.post_once(Target::sandbox(&args.id).part("code"), &request).await;
        let started: Exec = answer.inspect_err(|error| tell_denied(error, caller))?;
        if args.json {
            print_json(&started, caller)?;
            return Ok(started.exit_code.unwrap_or(EXIT_PADDOCK_FAILED));
        }
        let (findings, findings_missing) = (started.findings.clone(), started.findings_missing);
        scan::tell(&ScanReport { findings, findings_missing }, caller);
        let place = Place { sandbox: started.sandbox.clone(), exec: started.exec };
        let conversation = Conversation {
            client: client.clone(),
            place,
            from: Start::default(),
            stdin: false,
            tty: false,
            attached: false,
            all_to_stderr: false,
        };
        let finish = conversation.hold().await?;
        let code = conclude(finish, &client, &args.id, started.exec, caller).await?;
        tell_values(&client, &started, caller).await?;
        Ok(code)
    })
}

/// All that was found in code that does not run.
fn tell_denied(error: &ClientError, caller: &mut Caller) {
    if let ClientError::Refused { error, .. } = error
        && let Some(details) = &error.details
    {
        let (findings, findings_missing) = (details.findings.clone(), details.findings_missing);
        scan::tell(&ScanReport { findings, findings_missing }, caller);
    }
}

/// Prints the values that the code displayed and its last value, as text, after its own output.
async fn tell_values(client: &Client, started: &Exec, caller: &mut Caller<'_>) -> Result<(), CommandError> {
    let ended = client.exec(&started.sandbox, started.exec).await?;
    for result in &ended.results {
        if let Some(text) = &result.text {
            print(&format!("{}\n", render::escape::lines(text)), caller)?;
        }
    }
    if let Some(error) = ended.error.filter(|error| error.name == "ContextDied") {
        let _ = writeln!(caller.stderr, "paddock: {}", render::escape::line(&error.value));
    }
    if ended.context_restarted.is_some() {
        let _ =
            writeln!(caller.stderr, "paddock: the context had ended and began anew: it remembered nothing");
    }
    Ok(())
}
