//! A pseudo-terminal, with the person's end in our hands.

use crate::invocation::code;
use crate::wait::{PATIENCE, until};
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Terminal {
    person: File,
    program: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Option<Child>,
}

impl Terminal {
    pub fn open(rows: u16, columns: u16) -> Result<Terminal> {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&person)?;
        unlockpt(&person)?;
        let name = ptsname(&person, Vec::new())?;
        let program = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::fcntl_setfd(&person, rustix::io::FdFlags::CLOEXEC)?;
        let terminal = Terminal { person: person.into(), program, screen: Arc::default(), child: None };
        terminal.resize(rows, columns)?;
        terminal.watch()?;
        Ok(terminal)
    }

    /// As a terminal emulator does it; the kernel tells the program with SIGWINCH.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.person, size)?)
    }

    /// The settings that a program could leave changed.
    pub fn settings(&self) -> Result<Termios> {
        Ok(tcgetattr(&self.program)?)
    }

    /// With the terminal as its controlling terminal and as all three streams.
    pub fn start(&mut self, command: &mut Command) -> Result<()> {
        command
            .stdin(self.program.try_clone()?)
            .stdout(self.program.try_clone()?)
            .stderr(self.program.try_clone()?);
        // SAFETY: two system calls, which are safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        self.child = Some(command.spawn()?);
        Ok(())
    }

    pub fn type_keys(&mut self, keys: &[u8]) -> Result<()> {
        Ok(self.person.write_all(keys)?)
    }

    pub fn wait_for(&self, text: &str) -> Result<()> {
        until(PATIENCE, &format!("{text:?} on the screen"), || self.screen().contains(text).then_some(()))
            .with_context(|| format!("the screen shows {:?}", self.screen()))
    }

    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    pub fn exit_code(&mut self) -> Result<i32> {
        let child = self.child.as_mut().context("nothing was started")?;
        let ended = until(PATIENCE, "the end of the program", || child.try_wait().transpose());
        let status = ended.with_context(|| format!("the screen shows {:?}", self.screen()))??;
        Ok(code(status))
    }

    fn watch(&self) -> Result<()> {
        let (mut source, screen) = (self.person.try_clone()?, self.screen.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with an error when the last program's end is closed.
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                screen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
