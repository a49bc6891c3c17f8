//! Puts the work of a sandbox under its limits, as an engine does before the first command.

use paddock_backends::Fence;
use paddock_protocol::{ToGuest, encode_message};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

pub fn limit_work(fence: &mut dyn Fence, stream: &UnixStream) {
    let Some(entrances) = fence.limit_work().unwrap() else { return };
    let mut bytes = Vec::new();
    encode_message(&ToGuest::Cgroups { descriptors: entrances.len() }, &mut bytes).unwrap();
    let borrowed: Vec<_> = entrances.iter().map(AsFd::as_fd).collect();
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(borrowed.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
    let sent = sendmsg(stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(sent, bytes.len());
}
