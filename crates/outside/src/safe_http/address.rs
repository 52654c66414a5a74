//! Which addresses are out in the world, and which are inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is a public unicast one. Everything else is refused:
/// what is not known to be outside counts as inside.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let inside = match address.octets() {
        // This network, private, loopback, link-local and metadata.
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => true,
        [172, second, ..] => (16..32).contains(&second),
        // Carrier-grade NAT; some clouds keep their metadata there.
        [100, second, ..] => (64..128).contains(&second),
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            true
        }
        // Multicast, reserved, broadcast.
        [first, ..] => first >= 224,
    };
    !inside
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    match parts {
        // NAT64: the address within it is the one that is reached.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(v4(high, low)),
        // Teredo and other protocol assignments, documentation, 6to4.
        [0x2001, second, ..] if second < 0x0200 || second == 0x0db8 => false,
        [0x2002, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast is 2000::/3. Loopback, v4-mapped, v4-compatible, ULA,
        // link-local, site-local and multicast all lie outside of it.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], public: bool) {
        for address in addresses {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn fault_63_inside_is_inside() {
        check(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "100.64.0.1",
                "100.127.255.255",
                "100.100.100.200",
                "127.0.0.1",
                "127.255.255.254",
                "169.254.169.254",
                "172.16.0.1",
                "172.31.255.255",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.1.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
                "::127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b:1::1",
                "100::1",
                "2001::1",
                "2001:10::1",
                "2001:db8::1",
                "2002:7f00:1::1",
                "3fff::1",
                "5f00::1",
                "fc00::1",
                "fd00:ec2::254",
                "fe80::1",
                "fec0::1",
                "ff02::1",
            ],
            false,
        );
    }

    #[test]
    fn outside_is_outside() {
        check(
            &[
                "1.1.1.1",
                "8.8.8.8",
                "11.0.0.1",
                "100.63.0.1",
                "100.128.0.1",
                "126.0.0.1",
                "172.15.0.1",
                "172.32.0.1",
                "192.0.1.1",
                "192.167.0.1",
                "198.17.0.1",
                "198.20.0.1",
                "223.255.255.255",
                "2001:4860:4860::8888",
                "2606:4700::1111",
                "2a00:1450::1",
                "64:ff9b::808:808",
            ],
            true,
        );
    }
}
