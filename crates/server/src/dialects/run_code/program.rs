//! `POST /run_code`: one program, compiled where its language is, in a sandbox of its own.

use super::errors::Result;
use super::request::Body;
use super::sandbox::{DIRECTORY, Fresh, Wanted};
use crate::app::App;
use crate::auth::Caller;
use axum::Json;
use axum::extract::{RawPathParams, State};
use paddock_fleet::{NODE_TYPES, Program};
use paddock_model::api::{Exec, ExecCause, StartExec};
use paddock_tools::sandbox_fusion::answers::{Answer, Command};
use paddock_tools::sandbox_fusion::languages::{self, Language};
use paddock_tools::sandbox_fusion::request::RunCode;
use std::collections::BTreeMap;

/// The exit code of a shell that finds no such command, and of an exec that was not started for that reason.
const NOT_FOUND: i32 = 127;
const STRIPPER: &str = "/tmp/.strip-types.cjs";
/// CommonJS unless that is no program; lines stay where they are.
const STRIP: &str = r#"
const source = strip(require("fs").readFileSync(process.argv[2], "utf8"));
let kind = "cjs";
try { new (require("vm").Script)(`(async function () {${source}\n})`); } catch { kind = "mjs"; }
const made = process.argv[2].replace(/\.ts$/, "." + kind);
require("fs").writeFileSync(made, source);
console.log(made);
"#;

pub async fn run(
    State(app): State<App>,
    Caller(actor): Caller,
    template: RawPathParams,
    Body(wanted): Body<RunCode>,
) -> Result<Json<Answer>> {
    let (language, files) = (languages::find(&wanted.language)?, wanted.check()?);
    let bounds = Wanted {
        template: named(&template),
        seconds: wanted.compile_timeout + wanted.run_timeout,
        memory: wanted.memory(),
    };
    let sandbox = Fresh::take(&app, &actor, bounds).await?;
    let run = Run { app: &app, sandbox: &sandbox, language, wanted: &wanted };
    run.to_its_end(&files).await.map(Json)
}

/// The template in the path.
pub fn named(path: &RawPathParams) -> Option<String> {
    path.iter().find(|(name, _)| *name == "template").map(|(_, value)| value.to_string())
}

struct Run<'a> {
    app: &'a App,
    sandbox: &'a Fresh,
    language: &'a Language,
    wanted: &'a RunCode,
}

impl Run<'_> {
    async fn to_its_end(&self, files: &BTreeMap<String, Vec<u8>>) -> Result<Answer> {
        self.sandbox.write_all(files).await?;
        if self.language.is_typescript() {
            self.sandbox.write(STRIPPER, format!("{NODE_TYPES}{STRIP}").as_bytes()).await?;
        }
        let file = format!("{DIRECTORY}/{}", self.language.file(files));
        let class_path = class_path(files);
        let run = self.language.run_argv(&file, &class_path);
        let (compiled, ran) = match self.language.compile_argv(&file, &class_path) {
            Some(compile) => {
                let compiled = self.program(compile, &file, None, self.wanted.compile_timeout).await?;
                let ran = if compiled.is_good() { Some(self.made(run).await?) } else { None };
                (Some(compiled), ran)
            }
            None => {
                let plain = self.language.name == "python" && files.is_empty();
                let stdin = Some((self.wanted.stdin.clone(), plain));
                (None, Some(self.program(run, &file, stdin, self.wanted.run_timeout).await?))
            }
        };
        let mut answer = Answer::of(compiled, ran);
        answer.files = self.sandbox.fetch(&self.wanted.fetch_files).await?;
        Ok(answer)
    }

    /// A command that begins with the code: a compiler, or, with its input, an interpreter.
    async fn program(
        &self,
        argv: Vec<String>,
        file: &str,
        run: Option<(Option<String>, bool)>,
        seconds: f64,
    ) -> Result<Command> {
        let compiles = run.is_none();
        let (stdin, plain_python) = run.unwrap_or_default();
        let program = Program {
            language: self.language.scanned.into(),
            code: self.wanted.code.clone(),
            file: file.into(),
            argv,
            plain_python,
            stdin,
            cwd: Some(DIRECTORY.into()),
            env: BTreeMap::new(),
            timeout_seconds: Some(seconds),
        };
        let exec = self.sandbox.run(self.app, program).await?;
        self.check_tools(&exec, compiles || self.language.is_scripted())?;
        Ok(Command::of(exec)?)
    }

    /// The compiler's result.
    async fn made(&self, argv: Vec<String>) -> Result<Command> {
        let request = StartExec {
            argv: Some(argv),
            cwd: Some(DIRECTORY.into()),
            stdin: self.wanted.stdin.clone(),
            timeout_seconds: Some(self.wanted.run_timeout),
            ..StartExec::default()
        };
        Ok(Command::of(self.sandbox.execute(self.app, request).await?)?)
    }

    /// A program of the caller's may end with 127 too: only where a shell of ours looked for the tools it means that.
    fn check_tools(&self, exec: &Exec, looked: bool) -> Result<()> {
        let silent = exec.stdout.is_empty() && exec.stderr.is_empty();
        let missing = match exec.cause {
            Some(ExecCause::NotStarted { .. }) => true,
            Some(ExecCause::Exited) => looked && silent,
            _ => false,
        };
        match missing && exec.exit_code == Some(NOT_FOUND) {
            true => Err(self.language.missing(&self.sandbox.template).into()),
            false => Ok(()),
        }
    }
}

/// The directory, and archives among the files.
fn class_path(files: &BTreeMap<String, Vec<u8>>) -> String {
    let archives = files.keys().filter(|name| name.ends_with(".jar")).map(String::as_str);
    std::iter::once(".").chain(archives).collect::<Vec<_>>().join(":")
}
