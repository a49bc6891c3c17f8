//! The descriptors that a guest gets with its plan.

use paddock_fences::error::CreateError;
use paddock_protocol::Source;
use std::os::fd::OwnedFd;

/// Descriptors that travel with the plan, in their order.
#[derive(Default)]
pub struct Passed {
    descriptors: Vec<OwnedFd>,
    /// True if the sandbox's root makes the work's files in a mount, and then gives them to the work.
    pub made_by_root: bool,
}

/// One message of the kernel carries at most 253 descriptors; a few are the cgroups', six are devices.
const MOST_DESCRIPTORS: usize = 200;

impl Passed {
    /// Precondition: the cgroups' descriptors are not counted; they travel before these.
    pub fn add(&mut self, descriptor: OwnedFd) -> Result<Source, CreateError> {
        self.place(descriptor).map(Source::Descriptor)
    }

    /// As `add`, for a descriptor that is no mount.
    pub fn place(&mut self, descriptor: OwnedFd) -> Result<usize, CreateError> {
        if self.descriptors.len() >= MOST_DESCRIPTORS {
            return Err(CreateError::Guest {
                reason: format!("more than {MOST_DESCRIPTORS} mounts were asked for"),
            });
        }
        self.descriptors.push(descriptor);
        Ok(self.descriptors.len() - 1)
    }

    /// There is always room for these.
    pub fn add_device(&mut self, device: OwnedFd) -> usize {
        self.descriptors.push(device);
        self.descriptors.len() - 1
    }

    pub fn into_descriptors(self) -> Vec<OwnedFd> {
        self.descriptors
    }
}
