//! Jobs, their tasks, their cost and their artifacts.

use super::escape;
use super::style::Style;
use super::table::{Cell, Table};
use super::time::relative;
use paddock_model::api::{ChangeKind, Job, JobArtifact, JobState, JobTask};
use paddock_model::format_bytes;

pub fn list(jobs: &[Job], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["ID", "NAME", "STATE", "TASKS", "CREATED", "REASON"]);
    for job in jobs {
        let done = format!("{}/{}", job.tasks.succeeded, job.tasks.total);
        table.row([
            job.id.as_str().into(),
            job.name.as_deref().unwrap_or("-").into(),
            state(job.state),
            done.as_str().into(),
            relative(job.created_at_ms, now_ms).as_str().into(),
            short(job.reason.as_deref().unwrap_or("-")).as_str().into(),
        ]);
    }
    table.render(colour)
}

pub fn show(job: &Job, tasks: &[JobTask], now_ms: u64, colour: bool) -> String {
    let mut text = list(std::slice::from_ref(job), now_ms, colour);
    text.push_str(&summary(job, colour));
    let mut table =
        Table::with_header(&["TASK", "STATE", "ATTEMPTS", "EXIT", "SCORE", "ARTIFACTS", "REASON"]);
    for task in tasks {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let cells = [
            task.attempts.len().to_string(),
            or_none(task.exit_code.map(|code| code.to_string())),
            or_none(task.score.map(|score| score.to_string())),
            task.artifacts.len().to_string(),
            short(task.reason.as_deref().unwrap_or("-")),
        ];
        let index = task.index.to_string();
        let first = [index.as_str().into(), state(task.state)];
        table.row(first.into_iter().chain(cells.iter().map(|cell| cell.as_str().into())));
    }
    text.push_str(&table.render(colour));
    text
}

/// How it ended, the winner if there is one, and the cost of all tasks.
pub fn summary(job: &Job, colour: bool) -> String {
    let tasks = &job.tasks;
    let mut text = format!(
        "{}: {} of {} succeeded, {} failed, {} cancelled\n",
        Style::Bold.paint(&job.id, colour),
        tasks.succeeded,
        tasks.total,
        tasks.failed,
        tasks.cancelled
    );
    if let Some(best) = &job.best {
        text.push_str(&format!("candidate {} won with a score of {}\n", best.index, best.score));
        for change in &best.changes {
            let mark = match change.kind {
                ChangeKind::Added => "+",
                ChangeKind::Modified => "~",
                ChangeKind::Deleted => "-",
            };
            text.push_str(&format!("{mark} {}\n", escape::line(&change.path)));
        }
    }
    let cost = &job.cost;
    let mut parts = vec![
        format!("{} attempts", cost.attempts),
        format!("{:.1} s of wall time", cost.wall_ms as f64 / 1000.0),
    ];
    parts.extend(cost.cpu_ms.map(|cpu| format!("{:.1} s of processor", cpu / 1000.0)));
    parts.extend(cost.peak_memory_bytes.map(|peak| format!("{} at most", format_bytes(peak))));
    text.push_str(&format!("cost: {}\n", parts.join(", ")));
    text
}

/// The last lines that a failed task printed to standard error; to standard output where it printed none there.
pub fn last_words(task: &JobTask) -> String {
    const LINES: usize = 10;
    let printed = if task.stderr.trim().is_empty() { &task.stdout } else { &task.stderr };
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    if lines.iter().all(|line| line.trim().is_empty()) {
        return String::new();
    }
    let mut text = format!("paddock: task {} printed last:\n", task.index);
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        text.push_str(&format!("  {}\n", escape::line(line)));
    }
    text
}

pub fn artifacts(artifacts: &[JobArtifact], colour: bool) -> String {
    let mut table = Table::with_header(&["TASK", "SIZE", "PATH"]);
    for artifact in artifacts {
        let cells = [artifact.task.to_string(), format_bytes(artifact.bytes), artifact.path.clone()];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}

fn state(state: JobState) -> Cell {
    let style = match state {
        JobState::Succeeded => Style::Good,
        JobState::Failed => Style::Bad,
        JobState::Cancelled => Style::Warning,
        JobState::Queued | JobState::Running => Style::Plain,
    };
    Cell::new(state.word(), style)
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(100).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}
