//! In which zone this process is.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::zones::{Zone, folded};
use crate::ServiceInstance;

/// The own zone: told, or that of the listed instance with an address of this host.
#[derive(Debug)]
pub(super) struct Whereabouts {
    told: Option<Zone>,
    given: Option<Arc<[IpAddr]>>,
    addresses: OnceLock<Arc<[IpAddr]>>,
    /// Kept when the instance leaves the list: this process did not move.
    found: Mutex<Option<Zone>>,
}

impl Whereabouts {
    pub(super) fn new(told: Option<&str>, given: Option<Arc<[IpAddr]>>) -> Self {
        let told = told.map(|zone| folded(Some(zone))).filter(|zone| !zone.is_empty());
        Self { told, given, addresses: OnceLock::new(), found: Mutex::new(None) }
    }

    pub(super) fn zone(&self) -> Option<Zone> {
        self.told.clone().or_else(|| self.found.lock().clone())
    }

    /// Takes over what was found before.
    pub(super) fn remember(&self, zone: Option<Zone>) {
        let mut found = self.found.lock();
        if found.is_none() {
            *found = zone;
        }
    }

    /// Looks for this host in the lists, the first of which counts more.
    pub(super) fn look(&self, lists: &[&[ServiceInstance]]) -> Option<Zone> {
        if self.told.is_some() {
            return self.zone();
        }
        let own = self.addresses();
        let here = |instance: &&ServiceInstance| {
            instance.zone().is_some() && address(instance.host()).is_some_and(|ip| own.contains(&ip))
        };
        let zone = lists.iter().find_map(|list| list.iter().find(here)).map(|one| folded(one.zone()));
        if zone.is_some() {
            self.found.lock().clone_from(&zone);
        }
        self.zone()
    }

    /// The addresses by which others know this host.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        self.given.as_deref().unwrap_or_else(|| self.addresses.get_or_init(|| local().into()))
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

/// The addresses from which packets to the outside would leave; nothing is sent. Loopback is everybody's own.
fn local() -> Vec<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): they are nobody's, and reached by the default route.
    let outside = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let leaving = |(from, to): (&str, &str)| {
        let socket = UdpSocket::bind(from.parse::<SocketAddr>().ok()?).ok()?;
        socket.connect(to.parse::<SocketAddr>().ok()?).ok()?;
        Some(socket.local_addr().ok()?.ip().to_canonical())
    };
    let found = outside.into_iter().filter_map(leaving);
    found.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, zone: &str) -> ServiceInstance {
        ServiceInstance::builder(host).port(80).zone(zone).build().unwrap()
    }

    #[test]
    fn the_own_zone_is_told_or_that_of_the_own_address() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let here: Arc<[IpAddr]> = [ip("10.0.0.7"), ip("fd00::7")].into();
        let fleet = [at("10.0.0.6", "a"), at("10.0.0.7", " EU-b ")];
        let servers = [at("fd00::7", "c"), at("pod.test", "d")];
        let found = |given: Option<Arc<[IpAddr]>>, told: Option<&str>, lists: &[&[ServiceInstance]]| {
            Whereabouts::new(told, given).look(lists).map(|zone| zone.to_string())
        };
        assert_eq!(found(Some(here.clone()), None, &[&fleet, &servers]).as_deref(), Some("eu-b"));
        assert_eq!(found(Some(here.clone()), None, &[&[], &servers]).as_deref(), Some("c"));
        assert_eq!(found(Some(here.clone()), Some(" Z "), &[&fleet]).as_deref(), Some("z"));
        assert_eq!(found(Some([].into()), None, &[&fleet, &servers]), None);
        // An IPv4 address in IPv6 clothes is the same one.
        let mapped = [at("::ffff:10.0.0.7", "m")];
        assert_eq!(found(Some(here.clone()), None, &[&mapped]).as_deref(), Some("m"));
        // Who left the list is where it was.
        let whereabouts = Whereabouts::new(None, Some(here));
        assert_eq!(whereabouts.look(&[&fleet]).as_deref(), Some("eu-b"));
        assert_eq!(whereabouts.look(&[&[]]).as_deref(), Some("eu-b"));
    }

    #[test]
    fn an_address_that_every_host_has_is_no_address_of_this_one() {
        assert!(local().iter().all(|ip| !ip.is_loopback() && !ip.is_unspecified()));
        let looped = [at("127.0.0.1", "a"), at("::1", "b")];
        assert_eq!(Whereabouts::new(None, None).look(&[&looped]), None);
    }
}
