//! The memory of a sandbox, kept in a directory of the host's and brought back from there. Between the two nothing runs inside,
//! so that the host can keep the disk as it was at the same moment.

use super::SentryRunner;
use crate::failure::{During, Failure, Outcome};
use crate::system;
use paddock_protocol::{KEEP_MEMORY, RECALL_MEMORY};
use rustix::io::Errno;
use rustix::process::{WaitOptions, test_kill_process, waitpid};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

impl SentryRunner {
    /// Serves one host's command. If that host goes, the sandbox goes on, unless the host said that it need not.
    pub fn obey(&mut self) {
        let Some(Ok(host)) = self.commands.as_ref().map(system::accept) else { return };
        let _ = rustix::io::ioctl_fionbio(&host, false);
        let Ok((KEEP_MEMORY, Some(directory))) = hear(&host) else { return };
        // By its number in this process: the runtime's processes have only the descriptors that are named to them.
        let place = format!("/proc/1/fd/{}", directory.as_raw_fd());
        let kept = self.keep(&place);
        answer(&host, &kept);
        if kept.is_err() {
            return;
        }
        match hear(&host) {
            // The sandbox is to end: the host that made it takes it down.
            Ok((KEEP_MEMORY, _)) => {}
            // The host asked for it, or left without a word.
            Ok((RECALL_MEMORY, _)) | Ok(_) | Err(_) => {
                let recalled = self.recall(&place);
                answer(&host, &recalled);
            }
        }
    }

    /// Ends the kernel, with its memory in `place`.
    fn keep(&mut self, place: &str) -> Outcome<()> {
        let image = format!("--image-path={place}");
        let id = self.id.clone();
        let kernel = self.kernel.take();
        let null = self.null.try_clone().during(|| "copy a descriptor".into())?;
        if let Err(failure) = self.call(&["checkpoint", &image, &id], null.as_fd()) {
            // The kernel may have ended with the attempt. It may be collected already, so the check is by a signal.
            self.ended |= kernel.is_some_and(|kernel| test_kill_process(kernel).is_err());
            self.kernel = kernel;
            return Err(failure);
        }
        if let Some(kernel) = kernel {
            // Unless it was collected with the rest.
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(kernel), WaitOptions::empty()));
        }
        self.call(&["delete", "--force", &id], null.as_fd())
    }

    /// Runs the kernel again, with the memory in `place`.
    pub fn recall(&mut self, place: &str) -> Outcome<()> {
        let image = format!("--image-path={place}");
        let null = self.null.try_clone().during(|| "copy a descriptor".into())?;
        self.start(&["restore", &image], null.as_fd())
    }
}

fn hear(host: &OwnedFd) -> Outcome<(u8, Option<OwnedFd>)> {
    let (mut byte, mut brought) = ([0], Vec::new());
    match system::receive_with_descriptors(host, &mut byte, &mut brought).during(|| "hear the host".into())? {
        0 => Err(Failure { step: "hear the host".into(), errno: Errno::PIPE }),
        _ => Ok((byte[0], brought.pop())),
    }
}

/// A length, and the reason of the failure; the length is 0 after success.
fn answer(host: &OwnedFd, done: &Outcome<()>) {
    let text = done.as_ref().err().map(|failure| failure.step.clone()).unwrap_or_default();
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    let _ = rustix::net::send(host, &bytes, rustix::net::SendFlags::NOSIGNAL);
}
