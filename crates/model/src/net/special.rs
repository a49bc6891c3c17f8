//! Addresses that no name may lead to: a rule must list such an address as an address.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialKind {
    /// Gives credentials of the host to every client.
    Metadata,
    Loopback,
    LinkLocal,
    Private,
    /// Between a provider and its customers (RFC 6598).
    Carrier,
    /// An address of version 4 inside one of version 6: NAT64, 6to4, Teredo.
    Translated,
    Multicast,
    Documentation,
    Reserved,
    /// One of this host's own, in any range.
    Host,
}

impl std::fmt::Display for SpecialKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SpecialKind::Metadata => "a metadata service",
            SpecialKind::Loopback => "loopback",
            SpecialKind::LinkLocal => "link-local",
            SpecialKind::Private => "private",
            SpecialKind::Carrier => "of a carrier's own network",
            SpecialKind::Translated => "one of version 4 in disguise",
            SpecialKind::Multicast => "multicast",
            SpecialKind::Documentation => "for documentation only",
            SpecialKind::Reserved => "reserved",
            SpecialKind::Host => "this host's own",
        })
    }
}

/// Narrow blocks stand before the blocks that hold them.
const SPECIAL_4: &[([u8; 4], u8, SpecialKind)] = &[
    ([169, 254, 169, 254], 32, SpecialKind::Metadata),
    ([168, 63, 129, 16], 32, SpecialKind::Metadata),
    ([100, 100, 100, 200], 32, SpecialKind::Metadata),
    ([192, 0, 0, 192], 32, SpecialKind::Metadata),
    ([0, 0, 0, 0], 8, SpecialKind::Reserved),
    ([10, 0, 0, 0], 8, SpecialKind::Private),
    ([100, 64, 0, 0], 10, SpecialKind::Carrier),
    ([127, 0, 0, 0], 8, SpecialKind::Loopback),
    ([169, 254, 0, 0], 16, SpecialKind::LinkLocal),
    ([172, 16, 0, 0], 12, SpecialKind::Private),
    ([192, 0, 0, 0], 24, SpecialKind::Reserved),
    ([192, 0, 2, 0], 24, SpecialKind::Documentation),
    ([192, 88, 99, 0], 24, SpecialKind::Translated),
    ([192, 168, 0, 0], 16, SpecialKind::Private),
    ([198, 18, 0, 0], 15, SpecialKind::Reserved),
    ([198, 51, 100, 0], 24, SpecialKind::Documentation),
    ([203, 0, 113, 0], 24, SpecialKind::Documentation),
    ([224, 0, 0, 0], 4, SpecialKind::Multicast),
    ([240, 0, 0, 0], 4, SpecialKind::Reserved),
];

const SPECIAL_6: &[([u16; 8], u8, SpecialKind)] = &[
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, SpecialKind::Metadata),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, SpecialKind::Metadata),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, SpecialKind::Loopback),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, SpecialKind::Translated),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, SpecialKind::Translated),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, SpecialKind::Translated),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, SpecialKind::Documentation),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, SpecialKind::Documentation),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, SpecialKind::Translated),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, SpecialKind::Reserved),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, SpecialKind::Translated),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, SpecialKind::Private),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, SpecialKind::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, SpecialKind::Private),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, SpecialKind::Multicast),
    // Only 2000::/3 is assigned.
    ([0, 0, 0, 0, 0, 0, 0, 0], 3, SpecialKind::Reserved),
    ([0x4000, 0, 0, 0, 0, 0, 0, 0], 2, SpecialKind::Reserved),
    ([0x8000, 0, 0, 0, 0, 0, 0, 0], 1, SpecialKind::Reserved),
];

/// An address of version 4 in the form of version 6 counts as its address of version 4.
pub fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// True if only a rule with addresses leads there.
pub fn is_special(address: IpAddr) -> bool {
    special(plain(address)).is_some()
}

/// True if a rule for this block means special addresses and nothing else.
pub fn is_special_block(block: &IpNet) -> bool {
    special(block.network()).is_some_and(|(_, around)| around.contains(block))
}

/// The narrowest special block that the address lies in. Precondition: the address is [`plain`].
pub fn special(address: IpAddr) -> Option<(SpecialKind, IpNet)> {
    let four = SPECIAL_4.iter().map(|(a, length, kind)| (IpAddr::V4(Ipv4Addr::from(*a)), *length, *kind));
    let six = SPECIAL_6.iter().map(|(a, length, kind)| (IpAddr::V6(Ipv6Addr::from(*a)), *length, *kind));
    four.chain(six).find_map(|(first, length, kind)| {
        let block = IpNet::new(first, length).ok()?;
        block.contains(&address).then_some((kind, block))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known() {
        for (address, kind) in [
            ("169.254.169.254", SpecialKind::Metadata),
            ("168.63.129.16", SpecialKind::Metadata),
            ("fd00:ec2::254", SpecialKind::Metadata),
            ("169.254.1.1", SpecialKind::LinkLocal),
            ("127.0.0.1", SpecialKind::Loopback),
            ("127.255.255.254", SpecialKind::Loopback),
            ("10.0.0.1", SpecialKind::Private),
            ("172.31.255.255", SpecialKind::Private),
            ("192.168.0.1", SpecialKind::Private),
            ("100.64.0.1", SpecialKind::Carrier),
            ("0.0.0.0", SpecialKind::Reserved),
            ("198.19.255.255", SpecialKind::Reserved),
            ("224.0.0.1", SpecialKind::Multicast),
            ("255.255.255.255", SpecialKind::Reserved),
            ("192.0.2.1", SpecialKind::Documentation),
            ("::", SpecialKind::Translated),
            ("::1", SpecialKind::Loopback),
            ("::127.0.0.1", SpecialKind::Translated),
            ("::ffff:127.0.0.1", SpecialKind::Loopback),
            ("::ffff:169.254.169.254", SpecialKind::Metadata),
            ("64:ff9b::a9fe:a9fe", SpecialKind::Translated),
            ("64:ff9b:1::1", SpecialKind::Translated),
            ("2002:7f00:1::1", SpecialKind::Translated),
            ("2001::1", SpecialKind::Translated),
            ("2001:db8::1", SpecialKind::Documentation),
            ("fd12::1", SpecialKind::Private),
            ("fe80::1", SpecialKind::LinkLocal),
            ("ff02::1", SpecialKind::Multicast),
            ("100::1", SpecialKind::Reserved),
            ("5000::1", SpecialKind::Reserved),
            ("e000::1", SpecialKind::Reserved),
        ] {
            let found = special(plain(address.parse().unwrap())).map(|(kind, _)| kind);
            assert_eq!(found, Some(kind), "{address}");
        }
    }

    #[test]
    fn a_block_of_special_addresses_is_known() {
        let means = |text: &str| is_special_block(&text.parse().unwrap());
        for inside in [
            "127.0.0.1/32",
            "10.1.0.0/16",
            "169.254.169.254/32",
            "fd00::/8",
            "::1/128",
            "::ffff:127.0.0.1/128",
        ] {
            assert!(means(inside), "{inside}");
        }
        assert!(!means("0.0.0.0/0") && !means("1.1.1.1/32") && !means("::/0"));
    }

    #[test]
    fn the_public_ones_are_not_special() {
        for address in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::1", "2a00::1"]
        {
            assert_eq!(special(address.parse().unwrap()), None, "{address}");
        }
    }
}
