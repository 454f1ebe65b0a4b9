//! Identifiers of simulated hardware: invented, stable for a rack and a node, shaped like the real ones.

use sha2::{Digest, Sha256};

/// Bytes derived from a text, the source of every invented identifier.
fn bytes(seed: &str) -> [u8; 32] {
    Sha256::digest(seed.as_bytes()).into()
}

/// An upper-case version 4 UUID.
pub(super) fn uuid(seed: &str) -> String {
    let mut b = bytes(seed);
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    let h = hex::encode_upper(b);
    format!("{}-{}-{}-{}-{}", &h[0..8], &h[8..12], &h[12..16], &h[16..20], &h[20..32])
}

/// `n` lower-case hexadecimal digits.
pub(super) fn hex_digits(seed: &str, n: usize) -> String {
    let mut text = hex::encode(bytes(seed));
    text.truncate(n);
    text
}

/// A serial number of ten characters, as newer Macs have it.
pub(super) fn serial(seed: &str) -> String {
    const ALPHABET: &[u8] = b"CDFGHJKLMNPQRTVWXY0123456789";
    bytes(seed).iter().take(10).map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()])).collect()
}

/// A locally administered hardware address whose last byte is given.
pub(super) fn mac(seed: &str, first: u8, last: u8) -> String {
    let b = bytes(seed);
    format!("{first:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{last:02x}", b[0], b[1], b[2], b[3])
}

/// The EUI-64 link-local address of a hardware address.
pub(super) fn eui64(mac: &str) -> Option<std::net::Ipv6Addr> {
    let mut b = [0u8; 6];
    let mut parts = mac.split(':');
    for slot in &mut b {
        *slot = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    let word = |hi: u8, lo: u8| u16::from_be_bytes([hi, lo]);
    Some(std::net::Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        word(b[0] ^ 2, b[1]),
        word(b[2], 0xff),
        word(0xfe, b[3]),
        word(b[4], b[5]),
    ))
}

/// A random-looking link-local address, as macOS makes ("secured").
pub(super) fn secured_link_local(seed: &str) -> std::net::Ipv6Addr {
    let b = bytes(seed);
    let word = |i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
    std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, word(0), word(2), word(4), word(6))
}

/// A hardware address without zero padding, as `arp`, `ndp` and `netstat` print it.
pub(super) fn unpadded(mac: &str) -> String {
    let short = |part: &str| match part.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    };
    mac.split(':').map(short).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eui64_is_the_one_of_tn3205() {
        // samples/ifconfig/en2-active-tn3205.txt and samples/rdma/ibv_devinfo-v-26x-tn3205.abridged.txt.
        let got = eui64("36:4d:04:ea:4e:40").map(|a| a.to_string());
        assert_eq!(got.as_deref(), Some("fe80::344d:4ff:feea:4e40"));
    }

    #[test]
    fn unpadded_keeps_a_zero_byte() {
        assert_eq!(unpadded("00:0c:29:65:2d:9b"), "0:c:29:65:2d:9b");
    }
}
