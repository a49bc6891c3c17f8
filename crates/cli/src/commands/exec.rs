//! `paddock exec`: a command in a sandbox that is there.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::work::ExecArgs;
use crate::args::{EXIT_PADDOCK_FAILED, EXIT_SIGNALED};
use crate::caller::Caller;
use crate::client::Client;
use crate::live::{self, Conversation, Finish, Place, Start};
use crate::{env_file, env_vars, render};
use paddock_model::api::{Exec, ExecCause, StartExec};
use std::collections::BTreeMap;

pub fn execute(args: ExecArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    if args.tty && !caller.terminals.stdin {
        return Err(CommandError::NotATerminal);
    }
    let request = request(&args, caller)?;
    with_client(caller, async |client, caller| {
        let started = client.start_exec(&args.id, &request).await?;
        if args.json {
            print_json(&started, caller)?;
            return Ok(if args.detach { 0 } else { exit_code(&started) });
        }
        if args.detach {
            print(&format!("{}\n", started.exec), caller)?;
            return Ok(0);
        }
        let conversation = Conversation {
            client: client.clone(),
            // By its id: a name is free again when the sandbox has ended.
            place: Place { sandbox: started.sandbox, exec: started.exec },
            from: Start::default(),
            stdin: args.interactive || args.tty,
            tty: args.tty,
            attached: false,
            all_to_stderr: false,
        };
        conclude(conversation.hold().await?, &client, &args.id, started.exec, caller).await
    })
}

fn request(args: &ExecArgs, caller: &Caller) -> Result<StartExec, CommandError> {
    let mut env = BTreeMap::new();
    if args.tty {
        let terminal = caller.environment.get(env_vars::TERM).and_then(|value| value.to_str());
        env.insert("TERM".to_string(), terminal.unwrap_or("xterm").to_string());
    }
    for text in &args.env {
        env.extend(
            env_file::parse_variable(text, &caller.environment).map_err(crate::layers::LayerError::from)?,
        );
    }
    Ok(StartExec {
        command: None,
        argv: Some(args.command.clone()),
        env,
        cwd: args.cwd.clone(),
        user: args.user.clone(),
        stdin: None,
        open_stdin: args.interactive || args.tty,
        timeout_seconds: args.timeout,
        terminal: args.tty.then(live::size),
        background: args.detach || !args.json,
    })
}

/// The last message, and the exit code. Shared with `attach`.
pub async fn conclude(
    finish: Finish,
    client: &Client,
    id: &str,
    number: u32,
    caller: &mut Caller<'_>,
) -> Result<i32, CommandError> {
    match finish {
        Finish::Ended(exec) => {
            let sandbox = match exec.cause {
                Some(ExecCause::SandboxEnded) => client.sandbox(&exec.sandbox).await.ok(),
                _ => None,
            };
            if let Some(remark) = render::execs::remark(&exec, sandbox.as_ref()) {
                let _ = writeln!(caller.stderr, "paddock: {}", render::escape::line(&remark));
            }
            Ok(exit_code(&exec))
        }
        Finish::Detached => {
            let id = render::escape::line(id);
            let _ = writeln!(
                caller.stderr,
                "\r\npaddock: detached; `paddock attach {id} {number}` comes back to it"
            );
            Ok(0)
        }
        Finish::Killed { signal } => Ok(EXIT_SIGNALED + signal),
    }
}

pub fn exit_code(exec: &Exec) -> i32 {
    exec.exit_code.unwrap_or(EXIT_PADDOCK_FAILED)
}
