//! The messages between host and guest, over any byte stream.
//!
//! - [`frame`]: length-prefixed frames; output and input travel as raw bytes, everything else as messages
//! - [`message`]: the messages, as MessagePack maps, so that a field can be added without breaking an old peer
//! - [`tool`]: the guest's operations on files and ports for the host, and the records in which it answers
//! - [`extents`]: files with holes in the archives of a disk
//! - [`machine`]: the same for a VM with a kernel of its own
//! - [`plan`]: how the guest builds the inside of a fence when its backend leaves that to it
//!
//! Both sides treat the other as able to send anything: a length is checked before it is used, and a frame
//! that does not decode ends the connection. See VERSIONING.md.

mod extents;
mod frame;
mod machine;
mod message;
mod plan;
mod record;
mod tool;

pub use extents::{EXTENTS, MOST_EXTENTS, parse_extents};
pub use frame::{Decoder, FRAME_HEADER, Frame, FrameError, MAX_PAYLOAD, encode_data, encode_message};
pub use machine::{
    BE_SILENT, GO_ON, MACHINE_PORT, MACHINE_SHARE, MACHINE_SHARE_TAG, MACHINE_SYSTEM, MACHINE_SYSTEM_TAG,
    MachineBeginning, MachineOrders, MachinePlan, Names, Renewal, SHELTER,
};
pub use message::{
    CONTROL_VARIABLE, Channel, ExecPhase, ExecState, ExitKind, FromGuest, Kills, Start, StreamKind, ToGuest,
    Who, WindowSize, WorkUsage, ZYGOTE_VARIABLE, decode_from_guest, decode_to_guest,
};
pub use plan::{
    ANCHORED, AwaitedPlan, DiskPlan, GRANTED, HANDED_OVER, Ids, KEEP_MEMORY, KernelPlan, LandlockPlan,
    LinkPlan, MemoryWatch, NAMESPACES, NodeKind, Plan, ProtectedPath, RECALL_MEMORY, RootPlan, SENTRY_DOOR,
    SENTRY_PLACE, SentryPlan, Source, Step,
};

pub use record::{MAX_RECORD, RECORD_HEADER, Records, decode_record, encode_record};
pub use tool::{
    Content, ContentRecord, LayerEntry, ListRecord, MergeStep, Node, NodeType, Tool, ToolFailure,
    WATCH_LIMIT, WatchKind, WatchRecord, When,
};

/// One number for the whole protocol. It grows when an old peer could no longer understand a new one.
pub const VERSION: u32 = 2;

/// Numbers from here on belong to tools: they end with the connection that asked for them.
pub const FIRST_TOOL: u32 = 1 << 29;

/// Bytes of one stream that may be under way before the receiver grants more.
pub const WINDOW: u32 = 256 * 1024;

/// The entry that the fuzz target and the short run in `make test` both call: arbitrary bytes, in arbitrary pieces.
#[doc(hidden)]
pub fn fuzz_frames(data: &[u8]) {
    let mut decoder = Decoder::new();
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
        assert!(
            decoder.buffered() <= FRAME_HEADER + MAX_PAYLOAD + piece,
            "the decoder keeps at most one frame"
        );
    }
}
