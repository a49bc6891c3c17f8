//! One live sandbox.

use crate::error::EngineError;
use crate::exec::{Command, Exec};
use crate::link::{Greeting, Layers, Link};
use paddock_backends::{CreateError, Fence};
use paddock_model::{Guarantees, Isolation, LandlockLevel, SandboxId, Usage};
use paddock_protocol::{ToGuest, VERSION, WorkUsage};
use std::time::{Duration, Instant};

/// A guest that is not ready by then never will be.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a guest may take to say what its work used, when it is being ended by force.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// A file is sent in pieces that fit a frame.
const FILE_PIECE: usize = 512 * 1024;

pub struct Sandbox {
    pub id: SandboxId,
    pub guarantees: Guarantees,
    fence: Box<dyn Fence>,
    link: Link,
    started: Instant,
    ready: bool,
}

/// What was counted at the end.
pub struct Ended {
    pub usage: Usage,
    /// Whether the kernel killed something inside for want of memory.
    pub out_of_memory: bool,
}

impl Sandbox {
    pub(crate) fn new(
        id: SandboxId,
        guarantees: Guarantees,
        fence: Box<dyn Fence>,
        link: Link,
        started: Instant,
    ) -> Sandbox {
        Sandbox { id, guarantees, fence, link, started, ready: false }
    }

    /// Waits until the inside is built. What was asked of the sandbox before is done then, in order.
    pub async fn ready(&mut self) -> Result<(), EngineError> {
        if self.ready {
            return Ok(());
        }
        let greeting = tokio::time::timeout(PATIENCE, self.link.greeting()).await;
        match greeting {
            Ok(Ok(layers)) => {
                self.ready = true;
                self.correct_guarantees(layers);
                Ok(())
            }
            Ok(Err(Greeting::Failed { step, errno })) => {
                let source = std::io::Error::from_raw_os_error(errno);
                Err(CreateError::Inside { step: step.escape_debug().to_string(), source }.into())
            }
            Ok(Err(Greeting::Version(version))) => {
                let reason = format!("it speaks version {version} of the protocol, not {VERSION}");
                Err(CreateError::Guest { reason }.into())
            }
            Ok(Err(Greeting::Lost(reason))) => {
                Err(self.fence.why_not_started().unwrap_or(CreateError::Guest { reason }).into())
            }
            Err(_) => {
                let reason = format!("it said nothing for {} seconds", PATIENCE.as_secs());
                Err(CreateError::Guest { reason }.into())
            }
        }
    }

    /// The guarantees were read off the machine; the guest knows what became of them.
    fn correct_guarantees(&mut self, layers: Layers) {
        if self.guarantees.landlock_abi.0 != layers.landlock_abi {
            self.guarantees.landlock_abi = LandlockLevel(layers.landlock_abi);
            let weakness =
                format!("Landlock is at ABI {} here, less than the kernel has", layers.landlock_abi);
            self.guarantees.weaknesses.push(weakness);
        }
        if self.guarantees.time_namespace == Isolation::On && !layers.time_namespace {
            self.guarantees.time_namespace = Isolation::Absent;
            let weakness = "the host's uptime can be seen: clocks of its own could not be made".to_string();
            self.guarantees.weaknesses.push(weakness);
        }
    }

    pub fn exec(&self, command: Command) -> Result<Exec, EngineError> {
        Exec::start(&self.link, command).map_err(|error| EngineError::Lost { detail: error.to_string() })
    }

    /// A new file inside, owned by the work's user. The guest writes it; no path is resolved out here.
    pub async fn write_file(&self, path: &str, mode: u32, content: &[u8]) -> Result<(), EngineError> {
        let mut append = false;
        let mut rest = content;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(FILE_PIECE));
            let request = self.link.next_number();
            let content = serde_bytes::ByteBuf::from(piece);
            let message = ToGuest::WriteFile { request, path: path.into(), mode, append, content };
            match self.link.ask(request, &message).await {
                Some(0) => {}
                Some(errno) => {
                    let source = std::io::Error::from_raw_os_error(errno);
                    return Err(EngineError::File { path: path.into(), source });
                }
                None => return Err(EngineError::Lost { detail: "while a file was being written".into() }),
            }
            if after.is_empty() {
                return Ok(());
            }
            (append, rest) = (true, after);
        }
    }

    /// Kills all work and asks what it used; `None` when the guest has no more to say.
    pub async fn stop(&self) -> Option<WorkUsage> {
        tokio::time::timeout(LAST_WORDS, self.link.stop()).await.ok().flatten()
    }

    /// Ends everything inside and removes every trace. `work` is what the guest said, if it still could.
    pub fn end(mut self, work: Option<WorkUsage>) -> Result<Ended, EngineError> {
        let kernel = self.fence.destroy().map_err(|source| EngineError::Remove { source })?;
        let usage = Usage {
            wall_ms: self.started.elapsed().as_secs_f64() * 1e3,
            cpu_ms: kernel.cpu_ms.or(work.map(|w| w.cpu_us as f64 / 1e3)),
            peak_memory: kernel.peak_memory.or(work.map(|w| w.largest_process)),
            bytes_written: work.map(|w| w.disk_bytes + w.host_bytes),
        };
        Ok(Ended { usage, out_of_memory: kernel.memory_kills > 0 })
    }
}
