//! The addresses at the two ends of a sandbox's link. They are the same in every sandbox: no two sandboxes share a
//! link.

use std::net::{Ipv4Addr, Ipv6Addr};

pub const SANDBOX_4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub const GATE_4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub const PREFIX_4: u8 = 24;
pub const SANDBOX_6: Ipv6Addr = Ipv6Addr::new(0xfd50, 0x6164, 0x646f, 0x636b, 0, 0, 0, 0xf);
pub const GATE_6: Ipv6Addr = Ipv6Addr::new(0xfd50, 0x6164, 0x646f, 0x636b, 0, 0, 0, 2);
pub const PREFIX_6: u8 = 64;
/// The first of the block that stands for names: 198.18.0.0/15 is for measurements and has no owner.
pub const SYNTHETIC_4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
pub const SYNTHETIC_6: Ipv6Addr = Ipv6Addr::new(0xfd50, 0x6164, 0x646f, 0x6e61, 0, 0, 0, 0);
/// Where the proxy listens, on the sandbox's own loopback.
pub const PROXY_PORT: u16 = 3128;
/// The names of the two ends.
pub const SANDBOX_DEVICE: &str = "eth0";
pub const GATE_DEVICE: &str = "gate0";
/// The most that a veth carries.
pub const LARGEST_PACKET: u32 = 65_535;
/// The MAC address of the sandbox's end. The kernel inside also uses it as the destination of its frames (the link has
/// no ARP). So the other end, which is in the same namespace, takes none of them.
pub const SANDBOX_MAC: [u8; 6] = [0x02, 0x50, 0x61, 0x64, 0x64, 0x6b];
/// The MAC address of the gate's end; nothing answers to it.
pub const GATE_MAC: [u8; 6] = [0x02, 0x67, 0x61, 0x74, 0x65, 0x00];
