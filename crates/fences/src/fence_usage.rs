//! The kernel's counts of a sandbox, and the limit that ended its guest.

/// `None` in a field where the kernel does not count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FenceUsage {
    pub cpu_ms: Option<f64>,
    /// Bytes that the work holds now. Like the other counts of the present, `None` once the work has ended.
    pub memory: Option<u64>,
    pub processes: Option<u64>,
    pub peak_memory: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub memory_kills: u64,
    /// How often the kernel refused a new process or thread.
    pub refused_processes: u64,
    /// True if the same limits hold the guest, so that the guest dies when the work exceeds them.
    pub guest_counted: bool,
}

/// The resource that a sandbox had too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    Memory,
    Processes,
}

impl FenceUsage {
    /// The limit that ended the guest, if a limit did. Precondition: the guest was lost.
    pub fn lost_to(&self) -> Option<Shortage> {
        match self {
            _ if !self.guest_counted => None,
            _ if self.memory_kills > 0 => Some(Shortage::Memory),
            _ if self.refused_processes > 0 => Some(Shortage::Processes),
            _ => None,
        }
    }
}
