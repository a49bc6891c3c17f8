//! The messages between host and guest, over any byte stream.
//!
//! - [`frame`]: length-prefixed frames; output and input travel as raw bytes, everything else as messages
//! - [`message`]: the messages, as MessagePack maps, so that a field can be added without breaking an old peer
//! - [`tool`]: the guest's operations on files and ports for the host, and the records in which it answers
//! - [`extents`]: files with holes in the archives of a disk
//! - [`vm`]: the same for a VM with a kernel of its own
//! - [`plan`]: how the guest builds the inside of a fence when its backend leaves that to it
//!
//! Both sides treat the other as able to send anything: a length is checked before it is used, and a frame
//! that does not decode ends the connection. See VERSIONING.md.

mod extents;
mod frame;
mod message;
mod plan;
mod record;
mod tool;
mod vm;

pub use extents::{EXTENTS, MOST_EXTENTS, parse_extents};
pub use frame::{
    Decoder, FRAME_HEADER, Frame, FrameError, MAX_FROM_HOST, MAX_PAYLOAD, encode_data, encode_message,
    encode_message_within,
};
pub use message::{
    CONTROL_VARIABLE, Channel, ExecPhase, ExecState, ExitKind, FromGuest, Kills, Start, StreamKind, ToGuest,
    Who, WindowSize, WorkUsage, ZYGOTE_VARIABLE, decode_from_guest, decode_to_guest,
};
pub use plan::{
    ANCHORED, AwaitedPlan, DiskPlan, GRANTED, HANDED_OVER, INSTALLER_CAPABILITIES, Ids, KEEP_MEMORY,
    KernelPlan, LandlockPlan, LinkPlan, MemoryWatch, NAMESPACES, NodeKind, Overlaid, Plan, ProtectedPath,
    RECALL_MEMORY, RootPlan, SENTRY_DOOR, SENTRY_PLACE, SUDO_DOOR, SentryPlan, Source, Step, SudoPlan,
};
pub use vm::{
    BE_SILENT, GO_ON, Names, Renewal, SHELTER, VM_PORT, VM_SHARE, VM_SHARE_TAG, VM_SYSTEM, VM_SYSTEM_TAG,
    VmBeginning, VmOrders, VmPlan,
};

pub use record::{MAX_RECORD, RECORD_HEADER, Records, decode_record, encode_record};
pub use tool::{
    Attribute, Content, ContentRecord, LayerEntry, LinkEnd, ListRecord, MOST_ATTRIBUTE_BYTES, MergeStep,
    Node, NodeType, Resolved, Tool, ToolFailure, WATCH_LIMIT, WatchKind, WatchRecord, When,
};

/// One number for the whole protocol. It grows when an old peer could no longer understand a new one.
pub const VERSION: u32 = 4;

/// The oldest guest that may still be alive, and that a host understands.
pub const OLDEST: u32 = 2;

/// The most bytes that a command and its environment have together: 2 MiB, which Linux takes with the usual stack, less
/// what the path of the program and of its directory take there and in a frame. Each string counts with its NUL and a
/// pointer of 8 bytes, as the kernel counts.
pub const LARGEST_COMMAND: usize = MAX_FROM_HOST - (8 << 10);

/// True of a guest that resolves paths, and writes through links.
pub fn resolves_paths(version: u32) -> bool {
    version >= 4
}

/// The largest frame that a guest of this version takes.
pub fn most_to_guest(version: u32) -> usize {
    if version >= 3 { MAX_FROM_HOST } else { MAX_PAYLOAD }
}

/// Numbers from here on belong to tools: they end with the connection that asked for them.
pub const FIRST_TOOL: u32 = 1 << 29;

/// Bytes of one stream that may be under way before the receiver grants more.
pub const WINDOW: u32 = 256 * 1024;

/// The entry that the fuzz target and the short run in `make test` both call: arbitrary bytes, in arbitrary pieces.
#[doc(hidden)]
pub fn fuzz_frames(data: &[u8]) {
    fuzz_decoder(Decoder::new(), MAX_PAYLOAD, data);
    fuzz_decoder(Decoder::of_host(), MAX_FROM_HOST, data);
}

fn fuzz_decoder(mut decoder: Decoder, most: usize, data: &[u8]) {
    let piece = usize::from(data.first().copied().unwrap_or(1)).max(1);
    for bytes in data.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame::Message(body))) => {
                    let _ = decode_from_guest(&body);
                    let _ = decode_to_guest(&body);
                }
                Ok(Some(Frame::Data { .. })) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(decoder.buffered() <= FRAME_HEADER + most + piece, "the decoder keeps at most one frame");
    }
}
