//! Execs: start, wait, follow, signal, end.

mod code;
mod followers;
mod input;
mod output;
mod printed;
mod program;
mod pump;
mod signals;
mod tracked;

use followers::Wait;
pub use input::ExecInput;
pub use output::{OutputFrom, OutputReader, RawPiece, RawReader};
pub use printed::{Kept, Printed, Record as PrintedRecord};
pub use program::Program;
pub use pump::{
    Ending, KILLED, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, end as end_exec, forget_when_stored, memory_kills,
    pump, store_lengths,
};
pub use tracked::{ExecRecord, TrackedExec};

use super::contexts::Part;
use super::idempotency::Note;
use super::live::Live;
use super::record::now_ms;
use super::request::{check_directory, invalid, refused, seconds};
use super::{Actor, Fleet, FleetError, Kind, audit};
use paddock_engine::Command;
use paddock_model::User;
use paddock_model::api::{Exec, ExecCause, RunCode, StartExec, StreamName, TerminalSize};
use paddock_protocol::WindowSize;
use paddock_records::journal::Journal;
use paddock_settings::check_command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SHELL: &str = "/bin/sh";
/// The most running execs of one sandbox.
const RUNNING_EXECS: u32 = 1000;

impl Fleet {
    /// Returns as soon as the guest has been told.
    pub async fn start_exec(
        &self,
        actor: &Actor,
        id: &str,
        request: StartExec,
        key: Option<&str>,
    ) -> Result<Exec, FleetError> {
        let live = self.find(actor, id)?;
        let argv = argv(&request)?;
        let scope = format!("exec {}", live.id);
        let (actor, key) = (actor.clone(), key.map(str::to_string));
        self.detached(async move |fleet: Fleet| {
            fleet
                .once(&actor, &scope, key.as_deref(), &request, async |fleet: &Fleet, note: Note<'_>| {
                    FleetError::unless_descriptors_are_left()?;
                    let what = What { argv, request: &request, code: None };
                    Ok(fleet.begin_exec(&actor, &live, what, note).await?.to_api())
                })
                .await
        })
        .await
    }

    pub async fn run_code(
        &self,
        actor: &Actor,
        id: &str,
        request: RunCode,
        key: Option<&str>,
    ) -> Result<Exec, FleetError> {
        let live = self.find(actor, id)?;
        let plain = code::plain(&request)?;
        let start = StartExec {
            env: request.env.clone(),
            cwd: request.cwd.clone(),
            timeout_seconds: request.timeout_seconds,
            ..StartExec::default()
        };
        let scope = format!("exec {}", live.id);
        let (actor, key) = (actor.clone(), key.map(str::to_string));
        self.detached(async move |fleet: Fleet| {
            fleet
                .once(&actor, &scope, key.as_deref(), &request, async |fleet: &Fleet, note: Note<'_>| {
                    FleetError::unless_descriptors_are_left()?;
                    let tracked = match plain {
                        Some(code::Plain { argv, stdin }) => {
                            let what = What { argv, request: &start, code: Some((&request, stdin)) };
                            fleet.begin_exec(&actor, &live, what, note).await?
                        }
                        None => fleet.start_call(&actor, &live, &request, note).await?,
                    };
                    Ok(tracked.to_api())
                })
                .await
        })
        .await
    }

    pub async fn wait_exec(
        &self,
        actor: &Actor,
        id: &str,
        exec: u32,
        patience: Option<Duration>,
    ) -> Result<Exec, FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        match patience {
            Some(patience) => drop(tokio::time::timeout(patience, tracked.wait()).await),
            None => tracked.wait().await,
        }
        // The timeline has the end before a caller is told of it.
        self.written().await;
        tracked.with_output()
    }

    pub async fn exec(&self, actor: &Actor, id: &str, exec: u32) -> Result<Exec, FleetError> {
        self.tracked_exec(actor, id, exec)?.with_output()
    }

    pub async fn execs(&self, actor: &Actor, id: &str) -> Result<Vec<Exec>, FleetError> {
        let execs = self.tracked_execs(actor, id)?;
        Ok(execs.iter().map(|tracked| tracked.to_api()).collect())
    }

    pub async fn kill_exec(&self, actor: &Actor, id: &str, exec: u32) -> Result<Exec, FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        let live = self.find(actor, id)?;
        if tracked.runs() {
            let part = tracked.record().part.clone();
            match part {
                Part::Call(call) => self.kill_call(&live, &tracked, &call).await,
                Part::Command | Part::Runner(_) => {
                    tracked.mark_killed();
                    self.running(&live).await?.kill_exec(exec);
                }
            }
            audit::call(&self.0, actor, &live, "kill_exec", serde_json::json!({ "exec": exec }));
            let _ = tokio::time::timeout(Duration::from_secs(5), tracked.wait()).await;
        }
        tracked.with_output()
    }

    pub async fn signal_exec(
        &self,
        actor: &Actor,
        id: &str,
        exec: u32,
        signal: &str,
    ) -> Result<(), FleetError> {
        let number = signals::parse(signal)?;
        let tracked = self.tracked_exec(actor, id, exec)?;
        let live = self.find(actor, id)?;
        if !tracked.runs() {
            return Err(FleetError::new(Kind::Gone, "exec_ended", format!("exec {exec} has ended"))
                .hint("GET of the exec says how; start another"));
        }
        audit::call(
            &self.0,
            actor,
            &live,
            "signal_exec",
            serde_json::json!({ "exec": exec, "signal": number }),
        );
        let part = tracked.record().part.clone();
        let target = match part {
            Part::Command | Part::Runner(_) => exec,
            Part::Call(call) => call.turn.map(|turn| turn.runner).ok_or_else(|| {
                FleetError::new(Kind::Conflict, "wrong_state", format!("exec {exec} waits for its turn"))
            })?,
        };
        self.running(&live).await?.signal_exec(target, number);
        Ok(())
    }

    pub async fn resize_exec(
        &self,
        actor: &Actor,
        id: &str,
        exec: u32,
        size: TerminalSize,
    ) -> Result<(), FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        if !tracked.record().terminal {
            return Err(invalid(format!("exec {exec} has no terminal")).hint("start it with `terminal`"));
        }
        let live = self.find(actor, id)?;
        self.running(&live).await?.resize_exec(exec, window(size)?);
        Ok(())
    }

    pub async fn exec_input(&self, actor: &Actor, id: &str, exec: u32) -> Result<ExecInput, FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        let live = self.find(actor, id)?;
        Ok(ExecInput::new(tracked, live.open_stream()))
    }

    pub async fn output(
        &self,
        actor: &Actor,
        id: &str,
        exec: u32,
        from: OutputFrom,
    ) -> Result<OutputReader, FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        let open = self.find(actor, id).ok().map(|live| live.open_stream());
        Ok(OutputReader::new(self.clone(), tracked, from, wait_for(actor), open))
    }

    pub async fn raw_output(
        &self,
        actor: &Actor,
        id: &str,
        exec: u32,
        stream: StreamName,
        offset: u64,
        follow: bool,
    ) -> Result<RawReader, FleetError> {
        let tracked = self.tracked_exec(actor, id, exec)?;
        let open = self.find(actor, id).ok().map(|live| live.open_stream());
        Ok(RawReader::new(self.clone(), tracked, stream, offset, (follow, wait_for(actor)), open))
    }

    /// One exec, of a sandbox that lives or of one that ended within the last day.
    fn tracked_exec(&self, actor: &Actor, id: &str, exec: u32) -> Result<Arc<TrackedExec>, FleetError> {
        let (found, was_given) = match self.find(actor, id) {
            Ok(live) => match live.exec(exec) {
                Some(tracked) => return Ok(tracked),
                None => (self.stored_exec(&live.record().clone(), exec)?, live.has_given(exec)),
            },
            Err(error) => match self.ended(actor, id)? {
                Some(record) => (self.stored_exec(&record, exec)?, false),
                None => return Err(error),
            },
        };
        found.ok_or_else(|| match was_given {
            true => FleetError::new(
                Kind::Gone,
                "exec_forgotten",
                format!("exec {exec} ended long ago and is not kept any more"),
            )
            .hint(
                "calls are kept for a day, the newest 20000 of a sandbox; its timeline tells of all of them",
            ),
            false => FleetError::new(Kind::NotFound, "exec_not_found", format!("there is no exec {exec}")),
        })
    }

    fn tracked_execs(&self, actor: &Actor, id: &str) -> Result<Vec<Arc<TrackedExec>>, FleetError> {
        match self.find(actor, id) {
            Ok(live) => Ok(live.execs()),
            Err(error) => match self.ended(actor, id)? {
                Some(record) => self.stored_execs(&record),
                None => Err(error),
            },
        }
    }

    async fn begin_exec(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        what: What<'_>,
        note: Note<'_>,
    ) -> Result<Arc<TrackedExec>, FleetError> {
        let What { argv, request, code } = what;
        let inner = &self.0;
        let sandbox = self.running(live).await?;
        if live.running_execs() >= RUNNING_EXECS {
            return Err(FleetError::new(
                Kind::TooMany { retry_after_seconds: 1 },
                "quota_exceeded",
                format!("{RUNNING_EXECS} commands run in this sandbox already"),
            ));
        }
        let scanned = match &code {
            Some((code, _)) => self.scan_code(actor, live, (scanned_as(code), None), code).await?,
            None => Default::default(),
        };
        let (command, output_limit) = command(live, argv, request, code.is_some())?;
        self.note_beginning(live, false);
        let number = live.take_exec_number();
        let line = match &code {
            Some((code, _)) => format!("run_code {}", code.language.as_deref().unwrap_or("python")),
            None => request.command.clone().unwrap_or_else(|| command.argv.join(" ")),
        };
        let record = ExecRecord {
            number,
            command: line.chars().take(4096).collect(),
            started_at_ms: now_ms(),
            ended_at_ms: None,
            exit_code: None,
            cause: None,
            timeout_ms: command.deadline.map(|d| d.as_millis() as u64),
            output_limit,
            terminal: command.tty.is_some(),
            token: actor.token.clone(),
            part: Part::Command,
            scanned,
            lengths: None,
            key: note.key(),
        };
        let journal = Journal::open(&live.directory.join("execs").join(number.to_string()), output_limit)
            .map_err(|error| FleetError::storage(&error))?;
        audit::exec_started(
            inner,
            actor,
            live,
            number,
            &command,
            request,
            code.as_ref().map(|(code, _)| *code),
        );
        inner.save_exec(&live.id, &record)?;
        note.write(&number)?;
        let tracked = Arc::new(TrackedExec::new(&live.id, record, journal));
        let stdin = match code {
            Some((_, stdin)) => Some(stdin),
            None => request.stdin.as_ref().map(|text| text.clone().into_bytes()),
        };
        self.written().await;
        let exec = match sandbox.exec_numbered(number, command).await {
            Ok(exec) => exec,
            Err(error) => {
                // The exec is in the store already, and must not be recorded as running for ever.
                let detail = error.to_string();
                end_exec(inner, live, &tracked, ExecCause::NotStarted { detail }, KILLED);
                return Err(error.into());
            }
        };
        self.feed(&tracked, exec.input(), stdin, request.open_stdin).await;
        live.add_exec(tracked.clone());
        live.touch();
        inner.counters.execs.fetch_add(1, Ordering::Relaxed);
        inner.tell(live, "exec_started", Some(number.to_string()));
        tokio::spawn(pump(inner.clone(), live.clone(), tracked.clone(), exec));
        Ok(tracked)
    }

    /// Writes the known input in the background; an exec that does not read it does not hold the caller up.
    async fn feed(
        &self,
        tracked: &Arc<TrackedExec>,
        input: paddock_engine::Input,
        stdin: Option<Vec<u8>>,
        keep_open: bool,
    ) {
        let Some(bytes) = stdin else {
            if keep_open {
                tracked.input.lock().await.input = Some(input);
            }
            return;
        };
        let tracked = tracked.clone();
        // The lock is taken before another call can write after this.
        let mut guard = tracked.clone().input_owned().await;
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = tracked.wait() => {}
                _ = input.write(&bytes) => {}
            }
            guard.offset = bytes.len() as u64;
            if keep_open {
                guard.input = Some(input);
            } else {
                input.close();
            }
        });
    }
}

/// A command, or code as its interpreter's input.
struct What<'a> {
    argv: Vec<String>,
    request: &'a StartExec,
    code: Option<(&'a RunCode, Vec<u8>)>,
}

/// The command as the guest gets it, and how many bytes of its output are kept. `with_input`: its standard input is written to.
fn command(
    live: &Live,
    argv: Vec<String>,
    request: &StartExec,
    with_input: bool,
) -> Result<(Command, u64), FleetError> {
    let record = live.record();
    let timeout = match request.timeout_seconds {
        Some(value) => Some(seconds("timeout_seconds", value)?),
        None => record.spec.limits.timeout,
    };
    let mut env = record.env.clone();
    env.extend(request.env.clone());
    let user = match &request.user {
        Some(user) => user.parse::<User>().map_err(|error| invalid(error.to_string()))?,
        None => record.spec.user.clone(),
    };
    let mut command = Command {
        argv,
        env,
        cwd: request.cwd.clone().or_else(|| record.cwd.clone()),
        user,
        tty: request.terminal.map(window).transpose()?,
        stdin: request.open_stdin || request.stdin.is_some() || with_input,
        deadline: timeout,
        last: false,
        control: false,
        zygote: false,
    };
    if command.tty.is_some() {
        command.env.entry("TERM".into()).or_insert_with(|| "xterm-256color".into());
    }
    check_command(&command.argv, &command.env).map_err(refused)?;
    command.cwd.as_deref().map_or(Ok(()), check_directory)?;
    Ok((command, record.spec.limits.output))
}

/// The name by which the scan knows its language.
fn scanned_as(code: &RunCode) -> &str {
    match code.language.as_deref() {
        None | Some("shell") => "sh",
        Some(language) => language,
    }
}

/// A caller that may only look changes nothing, and holds nothing up.
fn wait_for(actor: &Actor) -> Wait {
    if actor.only_reads() { Wait::Never } else { Wait::ForThem }
}

fn argv(request: &StartExec) -> Result<Vec<String>, FleetError> {
    match (&request.command, &request.argv) {
        (Some(command), None) if !command.is_empty() => Ok(vec![SHELL.into(), "-c".into(), command.clone()]),
        (None, Some(argv)) if argv.first().is_some_and(|first| !first.is_empty()) => Ok(argv.clone()),
        (Some(_), Some(_)) => Err(invalid("both `command` and `argv` are given").hint("give one of them")),
        _ => Err(invalid("no command is given").hint("give `command`, a line for the shell, or `argv`")),
    }
}

fn window(size: TerminalSize) -> Result<WindowSize, FleetError> {
    if size.rows == 0 || size.columns == 0 {
        return Err(invalid(format!(
            "a terminal of {} rows and {} columns is not possible",
            size.rows, size.columns
        )));
    }
    Ok(WindowSize { rows: size.rows, columns: size.columns })
}
