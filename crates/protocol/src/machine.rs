//! How a machine with a kernel of its own is run, and what the guest in it is told. Who runs it is the guest that built the
//! fence around it; who is told is the machine's first process, which starts the guest that does the work.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachinePlan {
    /// The whole command. `{N}` stands for the number of the N-th of `files`, `{port}` for that of the machine's port. Of one
    /// that the host copies into the fence, which is the first of [`Plan::awaited`](crate::Plan), nothing.
    pub command: Vec<String>,
    pub env: Vec<String>,
    /// What the machine inherits: places in [`Plan::keep`](crate::Plan), counted from its first.
    pub files: Vec<usize>,
    /// A listening socket, as a place in [`Plan::keep`](crate::Plan): where the host says that the machine is to be silent.
    #[serde(default)]
    pub commands: Option<usize>,
    pub beginning: MachineBeginning,
    /// The number of the first connection; a machine that goes on from kept memory has had others.
    pub connection: u32,
}

/// What the guest in a machine is told first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum MachineBeginning {
    /// Nothing: its memory is to be kept as soon as it waits.
    Wait,
    /// An encoded [`MachineOrders`].
    Orders(ByteBuf),
    /// That it goes on from kept memory: an encoded [`Renewal`].
    Renewal(ByteBuf),
}

/// What no two machines may have in common though their memory was the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Renewal {
    /// For the kernel's random pool.
    pub entropy: ByteBuf,
    /// Since 1970.
    pub realtime_ns: u64,
    /// For one of many that begin with the same memory: whoever goes on from memory of its own keeps its names.
    #[serde(default)]
    pub names: Option<Names>,
}

/// The names of a sandbox that lie in files, each as the whole content of one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Names {
    pub machine_id: ByteBuf,
    pub boot_id: ByteBuf,
}

/// How the first process of a machine prepares it, and the plan of the guest that it starts there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineOrders {
    pub renewal: Renewal,
    /// Whether the first disk of the machine is the image below the root.
    pub image: bool,
    /// Parts of the host's system that are shared, each to appear under its own name.
    pub system: Vec<String>,
    /// Whether anything else is shared.
    pub share: bool,
    /// What the work may have: held by the machine's own kernel.
    pub memory: u64,
    pub pids: u64,
    /// Whether the guest makes a link.
    pub network: bool,
    /// The guest's plan, as a host would send it. Its descriptors are [`MachineOrders::DISK`] and so on.
    pub plan: ByteBuf,
}

impl MachineOrders {
    /// Places of what the first process of a machine gives the guest with its plan.
    pub const DISK: usize = 0;
    pub const EVENTS: usize = 1;
    pub const LISTENER: usize = 2;
    /// Where it hands over what leads out.
    pub const HANDOVER: usize = 3;
    pub const IMAGE: usize = 4;
}

/// Where what is shared with a machine lies, in the fence around it and in the machine, and its name on the way in between:
/// the caller's directories, and parts of the host's system.
pub const MACHINE_SHARE: &str = "/share";
pub const MACHINE_SHARE_TAG: &str = "share";
pub const MACHINE_SYSTEM: &str = "/system";
pub const MACHINE_SYSTEM_TAG: &str = "system";
/// Of the port between a machine and who runs it.
pub const MACHINE_PORT: &str = "paddock";
/// Says to who runs a machine: let it be silent, so that its memory can be kept. Answered by the same, once it is.
pub const BE_SILENT: u8 = b's';
/// Says to it: others nest in this fence, so stay when the machine ends. Answered by the same.
pub const SHELTER: u8 = b'h';
/// Says to it: the machine goes on. So does the end of the connection.
pub const GO_ON: u8 = b'g';
