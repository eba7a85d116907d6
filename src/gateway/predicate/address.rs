use std::net::IpAddr;

/// A network, such as `192.168.1.0/24`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        Some(Self { address, bits })
    }

    pub(super) fn contains(&self, peer: IpAddr) -> bool {
        // A socket for both families shows an IPv4 address as one of IPv6.
        let same = |one: u128, other: u128, width: u32| {
            let rest = width - u32::from(self.bits);
            one.checked_shr(rest).unwrap_or(0) == other.checked_shr(rest).unwrap_or(0)
        };
        match (self.address.to_canonical(), peer.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) if self.bits <= 32 => {
                same(u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        for (network, yes, no) in [
            (
                "192.168.1.1/24",
                &["192.168.1.0", "192.168.1.255", "::ffff:192.168.1.7"][..],
                &["192.168.2.1", "::1"][..],
            ),
            ("10.0.0.7", &["10.0.0.7"], &["10.0.0.8"]),
            ("0.0.0.0/0", &["1.2.3.4"], &["2001:db8::1"]),
            ("2001:db8::/32", &["2001:db8:1::1"], &["2001:db9::1", "1.2.3.4"]),
            ("::/0", &["2001:db8::1"], &["1.2.3.4"]),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(yes.iter().all(|peer| parsed.contains(peer.parse().unwrap())), "{network}");
            assert!(!no.iter().any(|peer| parsed.contains(peer.parse().unwrap())), "{network}");
        }
        for none in ["", "10.0.0", "10.0.0.1/33", "10.0.0.1/x", "::/129", "host"] {
            assert_eq!(Network::parse(none), None, "{none}");
        }
    }
}
