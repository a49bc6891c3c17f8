//! The QEMU process of a VM: started as all work of the fence is, with its files and one end of its port, or copied
//! into the fence by the host; and its error output.

use crate::enter::{Awaited, Inside};
use crate::failure::{During, Failure, Outcome};
use crate::work::spawn_with;
use paddock_protocol::{Start, VmPlan, Who};
use rustix::io::Errno;
use rustix::process::Pid;
use serde_bytes::ByteBuf;
use std::os::fd::{AsRawFd, OwnedFd};

/// The most bytes of its error output that are kept.
pub const SAID: usize = 1024;

pub struct Machine {
    /// `None` for a process that the host brings: it runs as long as any process is left here. Helper processes that
    /// make further copies come and go.
    pid: Option<Pid>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
    said: Vec<u8>,
}

/// A file that was kept for the VM.
pub fn copy(inside: &Inside, place: usize) -> Outcome<OwnedFd> {
    let file = inside.kept.get(place).ok_or(Errno::INVAL).during(|| "find a file of the VM".into())?;
    file.try_clone().during(|| "copy a descriptor".into())
}

impl Machine {
    pub fn start(inside: &Inside, plan: &VmPlan, port: OwnedFd) -> Outcome<Machine> {
        let mut files = plan.files.iter().map(|place| copy(inside, *place)).collect::<Outcome<Vec<_>>>()?;
        let mut names: Vec<(String, String)> = files
            .iter()
            .enumerate()
            .map(|(place, file)| (format!("{{{place}}}"), file.as_raw_fd().to_string()))
            .collect();
        names.push(("{port}".into(), port.as_raw_fd().to_string()));
        let word = |word: &String| {
            let named = names.iter().fold(word.clone(), |word, (mark, number)| word.replace(mark, number));
            ByteBuf::from(named.into_bytes())
        };
        let ids = inside.confinement.ids;
        let argv = plan.command.iter().map(word).collect();
        let env = plan.env.iter().map(|line| ByteBuf::from(line.clone().into_bytes())).collect();
        let user = Who::Ids { uid: ids.work, gid: ids.work_group };
        let start = Start::program(1, argv, env, user);
        files.push(port);
        let spawned = spawn_with(&start, &inside.confinement, files)?;
        let (stdout, stderr) = (spawned.stdout, spawned.stderr);
        Ok(Machine { pid: Some(spawned.pid), stdout, stderr, report: spawned.report, said: Vec::new() })
    }

    /// A VM process that the host copies into this fence; and the near end of its port.
    pub fn to_come(streams: Awaited) -> Outcome<(Machine, OwnedFd)> {
        let Awaited { stdout, stderr, control } = streams;
        for pipe in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(pipe, true).during(|| "unblock a stream".into())?;
        }
        let (stdout, stderr) = (Some(stdout), Some(stderr));
        Ok((Machine { pid: None, stdout, stderr, report: None, said: Vec::new() }, control))
    }

    pub fn is(&self, pid: Pid) -> bool {
        self.pid == Some(pid)
    }

    pub fn is_unnumbered(&self) -> bool {
        self.pid.is_none()
    }

    /// Its error output, while it is open.
    pub fn complaints(&self) -> [Option<&OwnedFd>; 2] {
        [self.stderr.as_ref(), self.stdout.as_ref()]
    }

    /// Its output is not read any more.
    pub fn close(&mut self) {
        (self.stdout, self.stderr, self.report) = (None, None, None);
    }

    pub fn hear_complaints(&mut self, buffer: &mut [u8]) {
        for pipe in [&mut self.stderr, &mut self.stdout] {
            let Some(open) = pipe.as_ref() else { continue };
            match rustix::io::read(open, &mut *buffer) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(count) if count > 0 => {
                    self.said.extend_from_slice(&buffer[..count]);
                    let excess = self.said.len().saturating_sub(SAID);
                    self.said.drain(..excess);
                }
                _ => *pipe = None,
            }
        }
    }

    /// Precondition: it has ended.
    pub fn why_it_ended(&mut self) -> Failure {
        let mut report = [0; 512];
        let count = self.report.take().and_then(|pipe| rustix::io::read(&pipe, &mut report).ok());
        if let Some((errno, step)) = report[..count.unwrap_or(0)].split_first_chunk::<4>() {
            let step = format!("start the VM: {}", String::from_utf8_lossy(step));
            return Failure { step, errno: Errno::from_raw_os_error(i32::from_ne_bytes(*errno)) };
        }
        let said = String::from_utf8_lossy(&self.said).trim().to_string();
        Failure { step: format!("the VM ended before it was ready: {said}"), errno: Errno::IO }
    }
}
