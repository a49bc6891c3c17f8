//! A program that runs once in a process of its own, for callers that send code and know of no contexts.
//!
//! One in Python takes the interpreter that waits in the sandbox, if one does, which becomes `python3 FILE` (runners/python_program.py).

use super::pump::pump;
use super::{ExecRecord, TrackedExec, What, audit};
use crate::contexts::{Frame, Part};
use crate::idempotency::Note;
use crate::live::Live;
use crate::record::now_ms;
use crate::request::seconds;
use crate::{Actor, Fleet, FleetError, WriteOptions};
use paddock_engine::Command;
use paddock_model::ScanReport;
use paddock_model::api::{Exec, RunCode, StartExec};
use paddock_records::journal::Journal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of programs that look at the interpreter around them, which is to be one of their own: frames below theirs, modules that are
/// loaded, memory that is held. A word too much costs such a program the start of a process, and no more.
const LOOKS_AROUND: &str = "_getframe|currentframe|f_back|print_stack|extract_stack|walk_stack|format_stack|stack_info|\
    stacklevel|inspect|settrace|setprofile|_current_frames|getrecursionlimit|modules|import gc|gc.|\
    resource|tracemalloc|faulthandler|pythonapi|breakpoint|pdb|\0";

#[derive(Debug, Clone, Default)]
pub struct Program {
    /// As the scan knows it.
    pub language: String,
    pub code: String,
    /// The file that the code is put into.
    pub file: String,
    /// The compiler, or the interpreter with the file.
    pub argv: Vec<String>,
    /// True if the command is `python3 FILE` and no other file is beside it that a module could be imported from.
    pub plain_python: bool,
    pub stdin: Option<String>,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub timeout_seconds: Option<f64>,
}

impl Fleet {
    /// Scans the code, puts it into its file and starts the command.
    pub async fn run_program(&self, actor: &Actor, id: &str, program: Program) -> Result<Exec, FleetError> {
        let live = self.find(actor, id)?;
        let actor = actor.clone();
        self.detached(async move |fleet: Fleet| {
            FleetError::unless_descriptors_are_left()?;
            // Whichever process runs it, the next sandbox of this kind may wait with an interpreter.
            fleet.note_beginning(&live, program.plain_python);
            if program.takes_waiting()
                && let Some(tracked) = fleet.in_waiting_interpreter(&actor, &live, &program).await?
            {
                return Ok(tracked.to_api());
            }
            let options = WriteOptions { parents: true, ..WriteOptions::default() };
            let mut file = fleet.write_file(&actor, &live.id, &program.file, options).await?;
            file.write(program.code.as_bytes()).await?;
            file.finish().await?;
            let (argv, stdin) = (program.argv.clone(), program.stdin.clone().unwrap_or_default());
            let (start, code) = (program.start(), program.as_code());
            let what = What { argv, request: &start, code: Some((&code, stdin.into_bytes())) };
            Ok(fleet.begin_exec(&actor, &live, what, Note::none()).await?.to_api())
        })
        .await
    }

    /// `None` if no interpreter waits.
    async fn in_waiting_interpreter(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        program: &Program,
    ) -> Result<Option<Arc<TrackedExec>>, FleetError> {
        let inner = &self.0;
        let code = program.as_code();
        let scanned = self.scan_code(actor, live, (&program.language, None), &code).await?;
        let inside = self.running(live).await?;
        let Some(waiting_interpreter) = live.take_waiting_interpreter() else { return Ok(None) };
        let number = waiting_interpreter.exec.number();
        let (command, record) = program.record(actor, live, number, scanned)?;
        let directory = live.directory.join("execs").join(number.to_string());
        let journal = Journal::open(&directory, record.output_limit);
        let journal = journal.map_err(|error| FleetError::storage(&error))?;
        audit::exec_started(inner, actor, live, number, &command, &program.start(), Some(&code));
        inner.save_exec(&live.id, &record)?;
        let tracked = Arc::new(TrackedExec::new(&live.id, record, journal));
        self.written().await;
        let mut bytes = waiting_interpreter.setup(&command.env, command.cwd.as_deref());
        bytes.extend(program.frame().encode());
        let (input, writing) = (waiting_interpreter.exec.input(), tracked.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = input.write(&bytes) => {}
                () = writing.wait() => {}
            }
        });
        live.add_exec(tracked.clone());
        live.touch();
        inner.counters.execs.fetch_add(1, Ordering::Relaxed);
        inner.tell(live, "exec_started", Some(number.to_string()));
        if let Some(limit) = command.deadline {
            let tracked = tracked.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = tracked.wait() => {}
                    () = tokio::time::sleep(limit) => {
                        tracked.mark_out_of_time();
                        inside.kill_exec(number);
                    }
                }
            });
        }
        tokio::spawn(pump(inner.clone(), live.clone(), tracked.clone(), waiting_interpreter.exec));
        Ok(Some(tracked))
    }
}

impl Program {
    fn takes_waiting(&self) -> bool {
        self.plain_python
            && !self.names_its_encoding()
            && !LOOKS_AROUND.split('|').any(|word| self.code.contains(word))
    }

    /// Python reads a file in the encoding that a comment in its first two lines names, and tells of an unknown one in other words than
    /// `compile` does.
    fn names_its_encoding(&self) -> bool {
        self.code.lines().take(2).any(|line| line.contains('#') && line.contains("coding"))
    }

    fn record(
        &self,
        actor: &Actor,
        live: &Live,
        number: u32,
        scanned: ScanReport,
    ) -> Result<(Command, ExecRecord), FleetError> {
        let of = live.record();
        let mut env = of.env.clone();
        env.extend(self.env.clone());
        let deadline = match self.timeout_seconds {
            Some(value) => Some(seconds("timeout_seconds", value)?),
            None => of.spec.limits.timeout,
        };
        let command = Command {
            argv: self.argv.clone(),
            env,
            cwd: self.cwd.clone().or_else(|| of.cwd.clone()),
            user: of.spec.user.clone(),
            deadline,
            control: true,
            ..Command::default()
        };
        let record = ExecRecord {
            number,
            command: format!("run_code {}", self.language),
            started_at_ms: now_ms(),
            ended_at_ms: None,
            exit_code: None,
            cause: None,
            timeout_ms: deadline.map(|limit| limit.as_millis() as u64),
            output_limit: of.spec.limits.output,
            terminal: false,
            token: actor.token.clone(),
            part: Part::Command,
            scanned,
            lengths: None,
            key: None,
        };
        Ok((command, record))
    }

    fn frame(&self) -> Frame {
        let frame = Frame::new("program").with("path", self.file.as_str()).with("code", self.code.as_str());
        match &self.stdin {
            Some(stdin) => frame.with("stdin", stdin.as_str()),
            None => frame,
        }
    }

    fn start(&self) -> StartExec {
        StartExec {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            timeout_seconds: self.timeout_seconds,
            ..StartExec::default()
        }
    }

    fn as_code(&self) -> RunCode {
        RunCode {
            code: self.code.clone(),
            language: Some(self.language.clone()),
            context: None,
            stdin: self.stdin.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            timeout_seconds: self.timeout_seconds,
            background: false,
            stream: false,
        }
    }
}
