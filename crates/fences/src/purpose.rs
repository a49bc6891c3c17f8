//! The use of a sandbox, which its backend knows from its beginning.

use crate::error::CreateError;

/// The use of a new sandbox. It decides how long the sandbox goes on, and what can begin from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It ends with the stream to its guest.
    Passing,
    /// It goes on when this engine ends, by itself or by force. Its guest then waits for another engine to
    /// [`adopt`](crate::Backend::adopt) it. A backend that cannot adopt makes it all the same: it ends with this engine, and its
    /// guarantees say so.
    Lasting,
    /// It lasts until its memory was kept, in a [`template_memory`](crate::Backend::template_memory) that others begin with.
    TemplateMemory,
    /// It lasts, never works for a caller, and is [paused](crate::Fence::pause_for_copies) for others to be copied from.
    ParentVm,
    /// It lasts, and an interpreter waits in it to be [forked](crate::Fence::zygote) into others. Those nest in it: it outlives
    /// them, or they end with it.
    Zygote,
}

impl Purpose {
    pub fn is_lasting(self) -> bool {
        self != Purpose::Passing
    }

    /// The answer of a backend that makes no sandboxes for this.
    pub fn unsupported(self) -> CreateError {
        CreateError::unsupported(match self {
            Purpose::Passing => "make a sandbox that ends with its engine",
            Purpose::Lasting => "make a sandbox that outlives its engine",
            Purpose::TemplateMemory => "keep memory for several sandboxes",
            Purpose::ParentVm => "copy a running sandbox",
            Purpose::Zygote => "fork an interpreter into other sandboxes",
        })
    }
}
