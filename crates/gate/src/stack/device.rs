//! Between TCP and the link: at most one packet in, any number out.

use crate::link::Link;
use crate::place::LARGEST_PACKET;
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

pub struct OnePacket<'a> {
    pub incoming: Option<&'a [u8]>,
    pub link: &'a Link,
}

pub struct Incoming<'a>(&'a [u8]);
pub struct Outgoing<'a>(&'a Link);

impl Device for OnePacket<'_> {
    type RxToken<'a>
        = Incoming<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Outgoing<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let packet = self.incoming.take()?;
        Some((Incoming(packet), Outgoing(self.link)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(self.link))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

pub fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    capabilities.max_transmission_unit = LARGEST_PACKET as usize;
    // The kernel inside left out the checksums of incoming packets; the link says so for outgoing ones.
    capabilities.checksum.ipv4 = Checksum::Tx;
    capabilities.checksum.tcp = Checksum::None;
    capabilities
}

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        self.0.send(length, f)
    }
}
