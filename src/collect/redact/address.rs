//! IPv4 addresses under pseudonyms. Two addresses in one network are in one network afterwards: a bit is turned by what
//! stands before it and by a key that nobody keeps. The first octet and the last stay, and so do the parts that say what
//! kind of address it is; the bit after those is always turned, so that no address stands for itself by chance. Inside the
//! pool of the link networks only the pool itself is another, since every address there follows from it.

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

pub(super) struct Addresses {
    key: RandomState,
    pool: Ipv4Net,
}

/// How many leading bits say what kind of address it is.
fn kind(address: Ipv4Addr) -> u8 {
    match address.octets() {
        // Unspecified, loopback, multicast, netmasks and broadcast name nobody.
        [0 | 127 | 224.., ..] => 32,
        [172, 16..=31, ..] => 12,
        [100, 64..=127, ..] => 10,
        [192, 168, ..] | [169, 254, ..] => 16,
        _ => 8,
    }
}

impl Addresses {
    pub(super) fn new(pool: Ipv4Net) -> Self {
        Addresses { key: RandomState::new(), pool }
    }

    pub(super) fn address(&self, address: Ipv4Addr) -> Ipv4Addr {
        self.turned(address, 24)
    }

    /// Of a network only its own bits are turned.
    pub(super) fn network(&self, network: Ipv4Net) -> Ipv4Net {
        let last = network.prefix_len().min(24);
        Ipv4Net::new(self.turned(network.network(), last), network.prefix_len()).map_or(network, |n| n.trunc())
    }

    /// Turns the bits between those that tell the kind and `last`.
    fn turned(&self, address: Ipv4Addr, last: u8) -> Ipv4Addr {
        let last = if self.pool.contains(&address) { last.min(self.pool.prefix_len()) } else { last };
        let bits = u32::from(address);
        let mut turned = bits;
        for n in kind(address)..last {
            let before = bits.checked_shr(32 - u32::from(n)).unwrap_or(0);
            if n == kind(address) || self.key.hash_one((n, before)) & 1 == 1 {
                turned ^= 1 << (31 - n);
            }
        }
        Ipv4Addr::from(turned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_stands_for_itself_whatever_the_key() {
        for _ in 0..3000 {
            let addresses = Addresses::new("10.77.0.0/16".parse().expect("a network"));
            for own in
                ["192.168.40.21", "172.20.3.7", "100.80.1.2", "169.254.9.9", "10.1.2.3", "10.77.3.9", "192.0.2.61"]
            {
                let own: Ipv4Addr = own.parse().expect("an address");
                assert_ne!(addresses.address(own), own);
            }
        }
    }

    #[test]
    fn networks_stay_networks() {
        let addresses = Addresses::new("10.77.0.0/16".parse().expect("a network"));
        let of = |text: &str| addresses.address(text.parse().expect("an address"));
        let network = |text: &str| addresses.network(text.parse().expect("a network"));
        for same in ["127.0.0.1", "0.0.0.0", "255.255.255.252", "224.0.0.251"] {
            assert_eq!(of(same).to_string(), same);
        }
        for (address, inside) in
            [("192.0.2.61", "192.0.2.0/24"), ("10.77.3.9", "10.77.3.8/30"), ("10.1.2.3", "10.1.0.0/16")]
        {
            assert!(network(inside).contains(&of(address)), "{address} in {inside}");
        }
        // Inside the pool everything but the pool stays.
        assert_eq!(of("10.77.3.9").octets()[2..], [3, 9]);
        assert_eq!(network("10.77.0.0/16").network().octets()[2..], [0, 0]);
        assert_eq!(of("192.168.5.7").octets()[..2], [192, 168]);
        assert_eq!(of("192.168.5.255").octets()[3], 255);
        assert_eq!(of("192.0.2.61"), of("192.0.2.61"));
    }
}
