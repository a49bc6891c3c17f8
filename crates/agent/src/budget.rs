//! The limits of a run, in case that the model does not end it.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Replies of the model.
    pub steps: u32,
    /// The tokens of all requests and replies together.
    pub tokens: Option<u64>,
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { steps: 50, tokens: None, time: Duration::from_secs(3600) }
    }
}
