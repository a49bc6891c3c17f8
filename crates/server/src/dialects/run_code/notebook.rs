//! `POST /run_jupyter`: cells that run one after the other in one Python, also after a cell that failed.

use super::errors::Result;
use super::program::named;
use super::request::Body;
use super::sandbox::{DIRECTORY, Fresh, Wanted};
use crate::app::App;
use crate::auth::Caller;
use axum::Json;
use axum::extract::{RawPathParams, State};
use paddock_model::api::{Exec, ExecCause, RunCode};
use paddock_tools::sandbox_fusion::answers::{
    self, Command, CommandStatus, INTERPRETER_DIED, Notebook, Status,
};
use paddock_tools::sandbox_fusion::request::RunJupyter;
use std::collections::BTreeMap;
use std::time::Instant;

pub async fn run(
    State(app): State<App>,
    Caller(actor): Caller,
    template: RawPathParams,
    Body(wanted): Body<RunJupyter>,
) -> Result<Json<Notebook>> {
    let files = wanted.check()?;
    let bounds =
        Wanted { template: named(&template), seconds: wanted.total_timeout, memory: wanted.memory() };
    let sandbox = Fresh::take(&app, &actor, bounds).await?;
    sandbox.write_all(&files).await?;
    let began = Instant::now();
    let mut cells = Vec::new();
    let mut end = End::default();
    for code in &wanted.cells {
        let left = wanted.total_timeout - began.elapsed().as_secs_f64();
        let seconds = if wanted.cell_timeout > 0.0 { wanted.cell_timeout.min(left) } else { left };
        if seconds <= 0.0 {
            end = End::of_time(cells.len() + 1);
            break;
        }
        let exec = sandbox.run_cell(&app, cell(code, seconds)).await?;
        end = End::of(&exec, cells.len() + 1);
        cells.push(answers::cell(exec));
        if end.status != CommandStatus::Finished {
            break;
        }
    }
    let good = end.status == CommandStatus::Finished;
    let driver = Command {
        status: end.status,
        execution_time: Some(began.elapsed().as_secs_f64()),
        return_code: good.then_some(0),
        stdout: Some(String::new()),
        stderr: Some(end.message.clone()),
    };
    Ok(Json(Notebook {
        status: if good { Status::Success } else { Status::Failed },
        message: end.message,
        driver: Some(driver),
        cells,
        executor_pod_name: None,
        files: sandbox.fetch(&wanted.fetch_files).await?,
    }))
}

/// How the last cell ended. An exception of its own ends no notebook.
struct End {
    status: CommandStatus,
    message: String,
}

impl Default for End {
    fn default() -> End {
        End { status: CommandStatus::Finished, message: String::new() }
    }
}

impl End {
    fn of(exec: &Exec, number: usize) -> End {
        match (&exec.cause, &exec.error) {
            (Some(ExecCause::TimeLimit { .. }), _) => End::of_time(number),
            (Some(ExecCause::OutOfMemory), _) => End::error(number, "the interpreter ran out of memory"),
            (_, Some(error)) if error.name == INTERPRETER_DIED => End::error(number, &error.value),
            (Some(ExecCause::Exited), _) => End::default(),
            _ => End::error(number, "the interpreter ended"),
        }
    }

    fn of_time(number: usize) -> End {
        let message = format!("cell {number}: the time limit was reached; cells until then are told");
        End { status: CommandStatus::TimeLimitExceeded, message }
    }

    fn error(number: usize, why: &str) -> End {
        End { status: CommandStatus::Error, message: format!("cell {number}: {why}") }
    }
}

fn cell(code: &str, seconds: f64) -> RunCode {
    RunCode {
        code: code.into(),
        language: Some("python".into()),
        context: None,
        stdin: None,
        env: BTreeMap::new(),
        cwd: Some(DIRECTORY.into()),
        timeout_seconds: Some(seconds),
        background: false,
        stream: false,
    }
}
