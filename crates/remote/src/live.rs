//! A command in a sandbox that lasts, on the caller's own streams. The command is the server's: a lost connection
//! is made again, and goes on at the byte where it broke.
//!
//! - [`conversation`]: the loop between output, input, signals and the terminal
//! - [`output`]: the command's output, followed across lost connections
//! - [`input`]: the caller's input, each byte exactly once
//! - [`detach`]: the keys that leave the command running

mod conversation;
mod detach;
mod input;
mod output;

pub use conversation::{Conversation, Finish, LiveError, size};
pub use output::{Output, Piece, Start};

use crate::client::ClientError;
use std::time::Duration;
use tokio::time::Instant;

/// How long a server may be away before a command is given up on.
const SERVER_AWAY_TIMEOUT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Which command.
#[derive(Debug, Clone)]
pub struct Place {
    pub sandbox: String,
    pub exec: u32,
}

/// Between attempts to reach a server that has gone.
pub struct Retry {
    since: Option<Instant>,
    pause: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::new()
    }
}

impl Retry {
    pub fn new() -> Retry {
        Retry { since: None, pause: FIRST_PAUSE }
    }

    pub fn succeeded(&mut self) {
        *self = Retry::new();
    }

    /// Waits a little; gives the error back when it is a decision, or when the time for hope is over.
    pub async fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_passing() || since.elapsed() > SERVER_AWAY_TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
