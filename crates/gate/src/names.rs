//! An address for each name that was asked for, so that a later connection says which name was meant.

use crate::place::{SYNTHETIC_4, SYNTHETIC_6};
use lru::LruCache;
use paddock_model::net::DomainName;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many names a sandbox has at once; the one that was used longest ago goes first.
const MOST_NAMES: usize = 4096;
/// 198.18.0.0/15 has so many addresses, and each is given out once before any is given out again: a program that
/// remembers an old one reaches nothing, and not another name.
const SLOTS: u32 = 1 << 17;

pub struct Names {
    slots: LruCache<DomainName, u32>,
    names: HashMap<u32, DomainName>,
    next: u32,
}

impl Default for Names {
    fn default() -> Self {
        // Memory is taken with the names, and not before.
        Names { slots: LruCache::unbounded(), names: HashMap::new(), next: 1 }
    }
}

impl Names {
    pub fn addresses(&mut self, name: &DomainName) -> [IpAddr; 2] {
        let slot = match self.slots.get(name) {
            Some(slot) => *slot,
            None => self.assign(name),
        };
        [IpAddr::V4(four(slot)), IpAddr::V6(six(slot))]
    }

    /// Which name an address stands for; asking keeps it.
    pub fn name(&mut self, address: IpAddr) -> Option<DomainName> {
        let slot = match address {
            IpAddr::V4(address) => u32::from(address).checked_sub(u32::from(SYNTHETIC_4))?,
            IpAddr::V6(address) => {
                let index = u128::from(address).checked_sub(u128::from(SYNTHETIC_6))?;
                u32::try_from(index).ok()?
            }
        };
        let name = self.names.get(&slot)?.clone();
        self.slots.promote(&name);
        Some(name)
    }

    fn assign(&mut self, name: &DomainName) -> u32 {
        if self.slots.len() >= MOST_NAMES
            && let Some((_, old)) = self.slots.pop_lru()
        {
            self.names.remove(&old);
        }
        while self.names.contains_key(&self.next) {
            self.advance();
        }
        let slot = self.next;
        self.advance();
        self.slots.put(name.clone(), slot);
        self.names.insert(slot, name.clone());
        slot
    }

    fn advance(&mut self) {
        // Skips the first and the last address of the block.
        self.next = if self.next + 2 >= SLOTS { 1 } else { self.next + 1 };
    }
}

fn four(slot: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(SYNTHETIC_4) + slot)
}

fn six(slot: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(SYNTHETIC_6) + u128::from(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: usize) -> DomainName {
        DomainName::parse(&format!("n{index}.example")).unwrap()
    }

    #[test]
    fn an_address_says_which_name_was_meant() {
        let mut names = Names::default();
        let first = names.addresses(&name(1));
        let second = names.addresses(&name(2));
        assert_eq!(names.addresses(&name(1)), first);
        assert_ne!(first, second);
        for address in first {
            assert_eq!(names.name(address), Some(name(1)));
        }
        assert_eq!(names.name("198.19.255.1".parse().unwrap()), None);
        assert_eq!(names.name("198.17.255.255".parse().unwrap()), None);
        assert_eq!(names.name("198.18.0.0".parse().unwrap()), None);
        assert_eq!(names.name("::1".parse().unwrap()), None);
        assert_eq!(names.name("ffff::1".parse().unwrap()), None);
    }

    #[test]
    fn what_is_used_stays_and_memory_is_bounded() {
        let mut names = Names::default();
        let [kept, _] = names.addresses(&name(0));
        let [forgotten, _] = names.addresses(&name(1));
        for index in 2..MOST_NAMES + 10 {
            names.addresses(&name(index));
            assert_eq!(names.name(kept), Some(name(0)));
        }
        assert_eq!(names.name(forgotten), None);
        assert_eq!((names.slots.len(), names.names.len()), (MOST_NAMES, MOST_NAMES));
        // Asked for again, it is somewhere else: its old place was given to no other name meanwhile.
        assert_ne!(names.addresses(&name(1))[0], forgotten);
    }

    #[test]
    fn every_address_lies_in_the_block() {
        let mut names = Names::default();
        for index in 0..SLOTS as usize + 100 {
            let [IpAddr::V4(address), _] = names.addresses(&name(index)) else { panic!("version 4 first") };
            let [first, second, third, fourth] = address.octets();
            assert!(first == 198 && (18..20).contains(&second));
            assert!((second, third, fourth) != (18, 0, 0) && (second, third, fourth) != (19, 255, 255));
        }
    }
}
