//! How far a job is: one line on stderr, redrawn in place. Without a terminal, a line when something has changed, at most one
//! each second.

use crate::caller::Caller;
use paddock_model::api::{Job, JobState};
use std::time::{Duration, Instant};

const WIDTH: u32 = 24;
const QUIET: Duration = Duration::from_secs(1);

pub struct Progress {
    began: Instant,
    told: Option<Instant>,
    last: String,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { began: Instant::now(), told: None, last: String::new() }
    }

    pub fn show(&mut self, job: &Job, caller: &mut Caller) {
        let line = line(job, self.began.elapsed());
        let ended = job.state.has_ended();
        // An error while writing this cannot be told anywhere.
        if caller.terminals.stderr {
            let end = if ended { "\n" } else { "" };
            let _ = write!(caller.stderr, "\r\x1b[K{line}{end}");
            let _ = caller.stderr.flush();
        } else {
            let counts = counts(job);
            let due = self.told.is_none_or(|told| told.elapsed() >= QUIET);
            if ended || (due && counts != self.last) {
                let _ = writeln!(caller.stderr, "paddock: {line}");
                (self.told, self.last) = (Some(Instant::now()), counts);
            }
        }
    }
}

fn counts(job: &Job) -> String {
    let tasks = &job.tasks;
    let mut parts = vec![format!("{}/{}", tasks.succeeded, tasks.total)];
    for (count, word) in [
        (tasks.failed, "failed"),
        (tasks.cancelled, "cancelled"),
        (tasks.running, "running"),
        (tasks.queued, "queued"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}

fn line(job: &Job, elapsed: Duration) -> String {
    let tasks = &job.tasks;
    let done = tasks.succeeded + tasks.failed + tasks.cancelled;
    let filled = (u64::from(WIDTH) * u64::from(done) / u64::from(tasks.total.max(1))) as usize;
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(WIDTH as usize - filled));
    let seconds = elapsed.as_secs_f64();
    let rate = match done > 1 && seconds > 0.5 && job.state == JobState::Running {
        true => format!(", {:.0}/s", f64::from(done) / seconds),
        false => String::new(),
    };
    format!("{} [{bar}] {} {}, {seconds:.1} s{rate}", job.id, job.state.word(), counts(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::{JobCost, JobCounts, JobSpec};

    #[test]
    fn a_line_says_how_far_it_is() {
        let tasks = JobCounts { total: 8, queued: 2, running: 2, succeeded: 3, failed: 1, cancelled: 0 };
        let mut job = Job {
            id: "job-1".into(),
            name: None,
            tenant: "t".into(),
            state: JobState::Running,
            reason: None,
            created_at_ms: 0,
            started_at_ms: None,
            ended_at_ms: None,
            kept_until_ms: None,
            tasks,
            cost: JobCost::default(),
            best: None,
            spec: JobSpec::default(),
        };
        let said = line(&job, Duration::from_secs(2));
        assert_eq!(
            said,
            "job-1 [############------------] running 3/8, 1 failed, 2 running, 2 queued, 2.0 s, 2/s"
        );
        job.tasks = JobCounts::default();
        assert!(line(&job, Duration::ZERO).contains("0/0"));
    }
}
