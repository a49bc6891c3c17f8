//! `paddock attach`: back to a command that runs.

use super::remote::with_client;
use super::{CommandError, exec};
use crate::args::work::AttachArgs;
use crate::caller::Caller;
use crate::live::{self, Conversation, Place, Start};
use paddock_model::api::ExecState;

pub fn execute(args: &AttachArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let found = match args.exec {
            Some(number) => client.exec(&args.id, number).await?,
            None => {
                let running =
                    client.execs(&args.id).await?.into_iter().filter(|e| e.state == ExecState::Running);
                running
                    .max_by_key(|exec| exec.exec)
                    .ok_or_else(|| CommandError::NothingRuns(args.id.clone()))?
            }
        };
        let stdin = !args.no_stdin;
        // Only a command with a terminal can be told its size.
        let tty = stdin
            && caller.terminals.stdin
            && caller.terminals.stdout
            && client.resize_exec(&args.id, found.exec, live::size()).await.is_ok();
        let conversation = Conversation {
            client: client.clone(),
            place: Place { sandbox: found.sandbox, exec: found.exec },
            from: Start { stdout: found.stdout_bytes, stderr: found.stderr_bytes },
            stdin,
            tty,
            attached: true,
            all_to_stderr: false,
        };
        exec::conclude(conversation.hold().await?, &client, &args.id, found.exec, caller).await
    })
}
