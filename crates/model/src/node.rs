//! The number of a node, and the node that an id names.

use serde::{Deserialize, Serialize};

/// The number of a server among those behind one gateway. Ids that the server makes begin with it, as three hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct NodeNumber(u16);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNumberError(String);

impl std::fmt::Display for NodeNumberError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the node number `{}` is not allowed: use a whole number from 0 to {}",
            self.0.escape_debug(),
            NodeNumber::HIGHEST
        )
    }
}

impl std::error::Error for NodeNumberError {}

impl NodeNumber {
    pub const HIGHEST: u16 = 4095;
    /// The bits of a random id that stay random below the number.
    const RANDOM_BITS: u32 = 52;

    pub fn get(self) -> u16 {
        self.0
    }

    /// The node that made this id of a kind (`sb-`, `sn-`), for ids of nodes with a number: the three digits behind the prefix. A name may
    /// look like an id of another kind. An id of a server without a number names a node too, by chance: only who knows that all servers
    /// have numbers may rely on the answer.
    pub fn of_id(prefix: &str, id: &str) -> Option<NodeNumber> {
        let digits = id.strip_prefix(prefix)?;
        let plain =
            digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return None;
        }
        u16::from_str_radix(digits.get(..3)?, 16).ok().map(NodeNumber)
    }

    /// 128 bits of randomness for a UUID, with the number in place of the 12 bits behind its first `-`.
    pub fn mark_uuid(self, random: u128) -> u128 {
        (random & !(0xfff << 84)) | (u128::from(self.0) << 84)
    }

    /// 64 bits of randomness with the number in place of the highest 12.
    pub fn mark(self, random: u64) -> u64 {
        (u64::from(self.0) << Self::RANDOM_BITS) | (random & ((1 << Self::RANDOM_BITS) - 1))
    }
}

impl std::fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u16> for NodeNumber {
    type Error = NodeNumberError;

    fn try_from(number: u16) -> Result<Self, NodeNumberError> {
        if number <= Self::HIGHEST {
            Ok(NodeNumber(number))
        } else {
            Err(NodeNumberError(number.to_string()))
        }
    }
}

impl From<NodeNumber> for u16 {
    fn from(number: NodeNumber) -> u16 {
        number.0
    }
}

impl std::str::FromStr for NodeNumber {
    type Err = NodeNumberError;

    fn from_str(text: &str) -> Result<Self, NodeNumberError> {
        let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u16> = if plain { text.parse().ok() } else { None };
        number
            .filter(|number| *number <= Self::HIGHEST)
            .map(NodeNumber)
            .ok_or_else(|| NodeNumberError(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SandboxId;

    #[test]
    fn an_id_says_its_node() {
        for number in [0, 1, 10, 4095] {
            let node = NodeNumber::try_from(number).unwrap();
            let id = SandboxId::from_random(node.mark(u64::MAX));
            assert_eq!(NodeNumber::of_id("sb-", id.as_str()), Some(node));
            assert_eq!(id.as_str(), format!("sb-{number:03x}fffffffffffff"));
            assert_eq!(node.mark(5) & 0xf_ffff_ffff_ffff, 5);
        }
        let uuid = NodeNumber::try_from(10).unwrap().mark_uuid(u128::MAX);
        assert_eq!(uuid, 0xffff_ffff_00af_ffff_ffff_ffff_ffff_ffff);
        for other in [
            "",
            "sb-",
            "web",
            "my-box",
            "sb-00a",
            "sb-00A0000000000000",
            "sb-00a00000000000000",
            "-0000000000000000",
            "web-0000000000000000",
            "sn-0000000000000000",
            "ffffffff-00af-4fff-bfff-ffffffffffff",
        ] {
            assert_eq!(NodeNumber::of_id("sb-", other), None, "{other}");
        }
        assert_eq!(NodeNumber::of_id("sn-", "sn-00b0000000000000").map(NodeNumber::get), Some(11));
    }

    #[test]
    fn only_decimal_numbers_in_range_are_numbers() {
        assert_eq!("4095".parse::<NodeNumber>().unwrap().get(), 4095);
        assert_eq!("007".parse::<NodeNumber>().unwrap().to_string(), "7");
        for bad in ["", "-1", "+1", "4096", "0x1", "1 ", "12345", "٣"] {
            bad.parse::<NodeNumber>().expect_err(bad);
        }
        assert!(serde_json::from_str::<NodeNumber>("4096").is_err());
        assert_eq!(serde_json::to_string(&NodeNumber::try_from(7).unwrap()).unwrap(), "7");
    }
}
