//! One running tool of the guest: raw bytes or records from it, a typed failure, never a wait without end.

use crate::exec::{Exec, Input, who};
use crate::exec_event::ExecEvent;
use crate::file_error::{FileError, FileErrorKind};
use crate::link::Link;
use paddock_model::User;
use paddock_protocol::{
    ExitKind, Kills, Records, Start, StreamKind, ToGuest, Tool, ToolFailure, decode_record,
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The longest silence of a tool that should answer.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(60);
/// A failure is one small record.
const LARGEST_FAILURE: usize = 16 * 1024;

/// The user of a tool inside, and the directory of relative paths.
#[derive(Debug, Clone)]
pub struct Place {
    pub user: User,
    pub cwd: Option<String>,
}

pub struct ToolRun {
    exec: Exec,
    link: Link,
    path: String,
    stderr: Vec<u8>,
    status: Option<ExitKind>,
    started: bool,
    /// True after a failure or a good end: nothing is left to stop.
    over: bool,
    /// True if the tool ends well as soon as its input is closed.
    gentle: bool,
}

impl ToolRun {
    /// `path`: the path that a failure names.
    pub fn start(link: &Link, tool: Tool, place: &Place, path: &str) -> Result<ToolRun, FileError> {
        let number = link.next_tool();
        let gentle = matches!(tool, Tool::Write { .. });
        let exec = Exec::listen(link, number, 0);
        let start = Start {
            exec: number,
            argv: Vec::new(),
            env: Vec::new(),
            cwd: place.cwd.clone(),
            user: who(place.user.clone()),
            tty: None,
            stdin: true,
            deadline_ms: None,
            deadline_kills: Kills::Exec,
            tool: Some(tool),
            last: false,
            control: false,
            zygote: false,
        };
        let sent = link.send(&ToGuest::Start(Box::new(start)));
        sent.map_err(|error| FileError::new(FileErrorKind::Invalid, path, error.to_string()))?;
        Ok(ToolRun {
            exec,
            link: link.clone(),
            path: path.to_string(),
            stderr: Vec::new(),
            status: None,
            started: false,
            over: false,
            gentle,
        })
    }

    pub fn input(&self) -> Input {
        self.exec.input()
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The next bytes of its output; `None` at its good end. Waits at most [`TOOL_TIMEOUT`].
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        match tokio::time::timeout(TOOL_TIMEOUT, self.next_whenever()).await {
            Ok(next) => next,
            Err(_) => {
                let detail = format!("it said nothing for {} seconds", TOOL_TIMEOUT.as_secs());
                Err(FileError::new(FileErrorKind::Silent, &self.path, detail))
            }
        }
    }

    /// The same, for tools that only report events. May be dropped without a loss.
    pub async fn next_whenever(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        loop {
            match self.exec.next().await {
                ExecEvent::Output { stream: StreamKind::Stderr, bytes } => {
                    if self.stderr.len() + bytes.len() > LARGEST_FAILURE {
                        return Err(self.broken("it wrote more than a failure is long"));
                    }
                    self.stderr.extend(bytes);
                }
                ExecEvent::Output { bytes, .. } => return Ok(Some(bytes)),
                ExecEvent::Exited { status, .. } => self.status = Some(status),
                ExecEvent::StartFailed { step, errno } => {
                    self.over = true;
                    return Err(FileError::from_errno(errno, &self.path, step));
                }
                ExecEvent::Closed => return self.end(),
                ExecEvent::Lost { detail } => {
                    self.over = true;
                    return Err(FileError::new(FileErrorKind::Lost, &self.path, detail));
                }
                ExecEvent::Started => self.started = true,
                ExecEvent::MemoryExceeded { .. }
                | ExecEvent::DeadlinePassed
                | ExecEvent::Interrupted { .. } => {}
            }
        }
    }

    fn end(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        self.over = true;
        if self.status == Some(ExitKind::Exited(0)) {
            return Ok(None);
        }
        let mut records = Records::default();
        records.push(&self.stderr);
        if let Ok(Some(body)) = records.next_body()
            && let Ok(failure) = decode_record::<ToolFailure>(body)
        {
            return Err(FileError::from_errno(failure.errno, &self.path, failure.detail));
        }
        Err(self.broken(match self.status {
            Some(ExitKind::Signaled(_)) => "it was killed inside the sandbox",
            _ => "it ended without a reason",
        }))
    }

    pub fn broken(&self, detail: &str) -> FileError {
        FileError::new(FileErrorKind::Broken, &self.path, detail.to_string())
    }

    /// Waits for its good end; no more output may come.
    pub async fn finish(&mut self) -> Result<(), FileError> {
        match self.next().await? {
            None => Ok(()),
            Some(_) => Err(self.broken("it said more than it was asked")),
        }
    }

    /// Waits for its one record, then for its good end.
    pub async fn answer<T: DeserializeOwned>(&mut self) -> Result<T, FileError> {
        let mut records = Records::default();
        let answer = self.record(&mut records).await?.ok_or_else(|| self.broken("it gave no answer"))?;
        if !records.is_empty() {
            return Err(self.broken("it said more than it was asked"));
        }
        self.finish().await?;
        Ok(answer)
    }

    /// The next record; `None` at its good end.
    pub async fn record<T: DeserializeOwned>(
        &mut self,
        records: &mut Records,
    ) -> Result<Option<T>, FileError> {
        loop {
            match records.next_body() {
                Ok(Some(body)) => {
                    return match decode_record(body) {
                        Ok(record) => Ok(Some(record)),
                        Err(error) => Err(self.broken(&error.to_string())),
                    };
                }
                Ok(None) => {}
                Err(error) => return Err(self.broken(&error.to_string())),
            }
            match self.next().await? {
                Some(bytes) => records.push(&bytes),
                None if records.is_empty() => return Ok(None),
                None => return Err(self.broken("it stopped in the middle of an answer")),
            }
        }
    }
}

impl Drop for ToolRun {
    fn drop(&mut self) {
        if !self.over {
            let exec = self.exec.number();
            let stop = if self.gentle { ToGuest::CloseStdin { exec } } else { ToGuest::Kill { exec } };
            let _ = self.link.send(&stop);
        }
        self.link.ignore(self.exec.number());
    }
}
