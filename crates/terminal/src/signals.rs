//! The signals that a caller may send while a command runs.

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    resize: Signal,
}

impl Signals {
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// The next one that asks us to end.
    pub async fn next_ending(&mut self) -> i32 {
        loop {
            let number = self.next().await;
            if number != libc::SIGWINCH {
                return number;
            }
        }
    }

    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
            _ = self.quit.recv() => libc::SIGQUIT,
            _ = self.resize.recv() => libc::SIGWINCH,
        }
    }
}
