//! How a VM with a kernel of its own is run, and the messages for the guest in it. The guest that built the fence
//! around the VM runs it; the VM's first process gets the messages, and starts the guest that does the work.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VmPlan {
    /// The whole command. `{N}` stands for the number of the N-th of `files`, `{port}` for that of the VM's port. Empty
    /// for a VM that the host copies into the fence, which is the first of [`Plan::awaited`](crate::Plan).
    pub command: Vec<String>,
    pub env: Vec<String>,
    /// The files that the VM inherits: places in [`Plan::keep`](crate::Plan), counted from its first.
    pub files: Vec<usize>,
    /// A listening socket, as a place in [`Plan::keep`](crate::Plan): over it the host orders the VM to be silent.
    #[serde(default)]
    pub commands: Option<usize>,
    pub beginning: VmBeginning,
    /// The number of the first connection; a VM that goes on from kept memory has had others.
    pub connection: u32,
}

/// The first message to the guest in a VM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum VmBeginning {
    /// None: its memory is to be kept as soon as it waits.
    Wait,
    /// An encoded [`VmOrders`].
    Orders(ByteBuf),
    /// It goes on from kept memory: an encoded [`Renewal`].
    Renewal(ByteBuf),
}

/// The values that no two VMs may have in common though their memory was the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Renewal {
    /// For the kernel's random pool.
    pub entropy: ByteBuf,
    /// Nanoseconds since 1970.
    pub realtime_ns: u64,
    /// For one of many VMs that begin with the same memory. A VM that goes on from memory of its own keeps its names.
    #[serde(default)]
    pub names: Option<Names>,
}

/// The names of a sandbox that lie in files, each as the whole content of one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Names {
    pub machine_id: ByteBuf,
    pub boot_id: ByteBuf,
}

/// How the first process of a VM prepares it, and the plan of the guest that it starts there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VmOrders {
    pub renewal: Renewal,
    /// True if the first disk of the VM is the image below the root.
    pub image: bool,
    /// Parts of the host's system that are shared, each to appear under its own name.
    pub system: Vec<String>,
    /// True if anything else is shared.
    pub share: bool,
    /// The limits of the work: held by the VM's own kernel.
    pub memory: u64,
    pub pids: u64,
    /// True if the guest makes a link.
    pub network: bool,
    /// The guest's plan, as a host would send it. Its descriptors are [`VmOrders::DISK`] and so on.
    pub plan: ByteBuf,
}

impl VmOrders {
    /// Places of the descriptors that the first process of a VM gives the guest with its plan.
    pub const DISK: usize = 0;
    pub const EVENTS: usize = 1;
    pub const LISTENER: usize = 2;
    /// The socket over which it hands over the network link.
    pub const HANDOVER: usize = 3;
    pub const IMAGE: usize = 4;
}

/// The place of the shared directories, in the fence around a VM and in the VM, and their names on the way in between:
/// the caller's directories, and parts of the host's system.
pub const VM_SHARE: &str = "/share";
pub const VM_SHARE_TAG: &str = "share";
pub const VM_SYSTEM: &str = "/system";
pub const VM_SYSTEM_TAG: &str = "system";
/// The name of the port between a VM and the guest that runs it.
pub const VM_PORT: &str = "paddock";
/// A command to the guest that runs a VM: let the VM be silent, so that its memory can be kept. Answered by the same,
/// once it is.
pub const BE_SILENT: u8 = b's';
/// A command to it: others nest in this fence, so stay when the VM ends. Answered by the same.
pub const SHELTER: u8 = b'h';
/// A command to it: the VM goes on. The end of the connection means the same.
pub const GO_ON: u8 = b'g';
