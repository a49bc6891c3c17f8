/// Receives the progress of slow steps. Steps come one after the other.
pub trait Progress: Send + Sync {
    /// A step begins; `total` is in bytes, if it is known.
    fn start(&self, what: &str, total: Option<u64>);
    fn advance(&self, bytes: u64);
    /// The step is over. Not called for a step that failed.
    fn done(&self);
}

/// The progress of callers that do not show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn start(&self, _what: &str, _total: Option<u64>) {}
    fn advance(&self, _bytes: u64) {}
    fn done(&self) {}
}
