//! Which /30 belongs to which cable: by node pair and rail alone, so that moving a cable to another receptacle
//! changes the interface and not the address, and a node added at the end moves nobody else's.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// Cables of one node pair that get a network: no Mac has more than six receptacles.
pub const RAILS: u32 = 6;

/// Networks the pool's top keeps for each pair's second to last rail.
const MORE: u64 = RAILS as u64 - 1;

/// Prefix length of a link network.
const LINK: u8 = 30;

/// Number of a pair of nodes, by their places in the inventory, `low < high`. Pairs with the node at place 0 to
/// `high - 1` come first, so the number does not depend on how many nodes follow.
pub fn pair_index(low: usize, high: usize) -> u64 {
    let (low, high) = (low as u64, high as u64);
    high * high.saturating_sub(1) / 2 + low
}

/// How many /30 the pool has.
fn size(pool: Ipv4Net) -> u64 {
    1u64 << LINK.saturating_sub(pool.prefix_len())
}

/// The network of a pair's rail; none when the pool has no room for it.
///
/// First rails fill the pool from the bottom, further rails from the top (both without gaps by pair number), so
/// neither depends on the number of nodes. `pairs` is how many first rails this rack has: the top must not reach
/// into them.
pub fn rail_network(pool: Ipv4Net, pair: u64, rail: u32, pairs: u64) -> Option<Ipv4Net> {
    let size = size(pool);
    let index = if rail == 0 {
        pair
    } else if rail < RAILS {
        let below_top = pair * MORE + u64::from(rail);
        size.checked_sub(below_top).filter(|index| *index >= pairs)?
    } else {
        return None;
    };
    let offset = u32::try_from(index.checked_mul(4)?).ok()?;
    let first = u32::from(pool.network()).checked_add(offset)?;
    (index < size && pool.prefix_len() <= LINK).then(|| Ipv4Net::new(Ipv4Addr::from(first), LINK).ok())?
}

/// The pair and rail an address of the pool belongs to, and whether it is the pair's first node's; none when it is
/// no host address of a link network of a rack with so many nodes.
pub fn pair_of(pool: Ipv4Net, address: Ipv4Addr, nodes: usize) -> Option<(usize, usize, u32, bool)> {
    if !pool.contains(&address) {
        return None;
    }
    let offset = u32::from(address).checked_sub(u32::from(pool.network()))?;
    let (index, host) = (u64::from(offset / 4), offset % 4);
    if host != 1 && host != 2 {
        return None;
    }
    let pairs = pair_index(0, nodes);
    let (pair, rail) = if index < pairs {
        (index, 0)
    } else {
        let below_top = size(pool).checked_sub(index)?.checked_sub(1)?;
        (below_top / MORE, u32::try_from(below_top % MORE).ok()? + 1)
    };
    // Numbers of pairs grow with the higher place; racks are small.
    let high = (1..nodes).rev().find(|high| pair_index(0, *high) <= pair)?;
    let low = usize::try_from(pair - pair_index(0, high)).ok()?;
    (low < high).then_some((low, high, rail, host == 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pool(text: &str) -> Ipv4Net {
        text.parse().expect("a network")
    }

    #[test]
    fn the_first_networks_are_these() {
        let p = pool("10.254.0.0/16");
        let net = |pair, rail| rail_network(p, pair, rail, 6).map(|n| n.to_string());
        assert_eq!(pair_index(0, 1), 0);
        assert_eq!(pair_index(0, 2), 1);
        assert_eq!(pair_index(1, 2), 2);
        assert_eq!(pair_index(0, 3), 3);
        assert_eq!(net(0, 0).as_deref(), Some("10.254.0.0/30"));
        assert_eq!(net(5, 0).as_deref(), Some("10.254.0.20/30"));
        assert_eq!(net(0, 1).as_deref(), Some("10.254.255.252/30"));
        assert_eq!(net(0, 5).as_deref(), Some("10.254.255.236/30"));
        assert_eq!(net(1, 1).as_deref(), Some("10.254.255.232/30"));
        assert_eq!(net(0, 6), None);
    }

    #[test]
    fn a_small_pool_has_room_for_first_rails_before_further_ones() {
        let p = pool("192.168.7.0/27"); // eight networks, six pairs
        assert_eq!(rail_network(p, 5, 0, 6).map(|n| n.to_string()).as_deref(), Some("192.168.7.20/30"));
        assert_eq!(rail_network(p, 0, 2, 6).map(|n| n.to_string()).as_deref(), Some("192.168.7.24/30"));
        assert_eq!(rail_network(p, 0, 3, 6), None, "would be the sixth pair's first rail");
        assert_eq!(rail_network(p, 8, 0, 6), None, "beyond the pool");
        assert_eq!(rail_network(pool("10.0.0.0/31"), 0, 0, 1), None);
    }

    proptest! {
        #[test]
        fn networks_are_distinct_inside_the_pool_and_lead_back_to_their_pair(prefix in 16u8..=26, nodes in 2usize..9) {
            let p = Ipv4Net::new(Ipv4Addr::new(10, 9, 0, 0), prefix).expect("a network");
            let pairs = pair_index(0, nodes);
            let mut seen = BTreeSet::new();
            for high in 1..nodes {
                for low in 0..high {
                    for rail in 0..RAILS {
                        let Some(net) = rail_network(p, pair_index(low, high), rail, pairs) else { continue };
                        prop_assert!(p.contains(&net));
                        prop_assert!(seen.insert(net), "{net} twice");
                        let first = Ipv4Addr::from(u32::from(net.network()) + 1);
                        prop_assert_eq!(pair_of(p, first, nodes), Some((low, high, rail, true)));
                        let second = Ipv4Addr::from(u32::from(net.network()) + 2);
                        prop_assert_eq!(pair_of(p, second, nodes), Some((low, high, rail, false)));
                        prop_assert_eq!(pair_of(p, net.network(), nodes), None);
                        // A node added at the end moves nobody.
                        let later = rail_network(p, pair_index(low, high), rail, pair_index(0, nodes + 1));
                        prop_assert!(later.is_none() || later == Some(net));
                    }
                }
            }
        }
    }
}
