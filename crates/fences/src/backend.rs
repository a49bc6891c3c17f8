//! The trait of a backend, which puts up fences. Only the methods without a body are required: a backend that makes
//! sandboxes and no more has four of them, and its [`Fence`](crate::Fence) has three. Every other method answers that the backend cannot
//! do it, by [`CreateError::Unsupported`] or [`std::io::ErrorKind::Unsupported`]. The template of a new one is tests/minimal/src/backend.rs.

use crate::error::{AdoptError, CreateError};
use crate::fence::Raised;
pub use crate::fence_usage::FenceUsage;
use crate::purpose::Purpose;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub trait Backend: Send + Sync {
    fn name(&self) -> &'static str;

    /// The abilities of this host for this backend, and the missing parts, in words a person can act on.
    fn probe(&self) -> Availability;

    /// The guarantees that a sandbox of this spec will really have.
    fn guarantees(&self, spec: &Spec) -> Guarantees;

    /// Puts up a fence whose guest is coming up: it says that it is ready, or why not, over the stream. A purpose that
    /// this backend does not have is answered with [`Purpose::unsupported`].
    fn create(&self, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError>;

    /// A part that every sandbox needs and this host lacks, if a quick check finds one.
    fn missing(&self) -> Option<String> {
        None
    }

    /// A lasting sandbox that goes on from memory that [`crate::Fence::keep_memory`] has kept, over a disk of the same moment.
    /// Its guest is to be resumed: it sends nothing by itself.
    fn create_from_memory(
        &self,
        _id: &SandboxId,
        _spec: &Spec,
        _memory: &Path,
    ) -> Result<Raised, CreateError> {
        Err(CreateError::unsupported("let a sandbox go on from kept memory"))
    }

    /// The directory with memory that any number of sandboxes of this spec, in which `started` was started, can begin
    /// with. [`Backend::create_from_memory`] takes it, once it is there. The path changes when a change elsewhere makes
    /// the kept memory stale. `None` if no memory can be kept.
    ///
    /// It is made by [`crate::Fence::keep_memory`] of a sandbox for [`Purpose::TemplateMemory`], in a directory of that name with an
    /// ending (`.new`), and renamed.
    fn template_memory(&self, _spec: &Spec, _started: &[u8]) -> Result<Option<PathBuf>, CreateError> {
        Ok(None)
    }

    /// Takes over a lasting sandbox that an earlier engine of the same state directory left. The stream is a new
    /// one; its guest goes on where the old one broke.
    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        Err(AdoptError::Foreign { id: id.clone() })
    }

    /// True if the guest of a lasting sandbox runs. A guest that the kernel is just ending does not count as running.
    fn stands(&self, _id: &SandboxId) -> bool {
        false
    }

    /// Ends and removes a lasting sandbox, or a shell that others nested in, that an earlier engine left. It does not
    /// matter if its guest can still be reached.
    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError> {
        Err(AdoptError::Foreign { id: id.clone() })
    }

    /// Ends and removes every lasting sandbox of this state directory that is not in `keep`, those included whose
    /// engine was killed while it made them; says which.
    ///
    /// Precondition: no other engine makes lasting sandboxes in this state directory meanwhile.
    fn sweep(&self, _keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
        Ok(Vec::new())
    }
}
