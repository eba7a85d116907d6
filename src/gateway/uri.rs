//! Where a route leads.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{ServiceId, ServiceInstance};

/// Where a route leads.
#[derive(Clone, Debug)]
pub(super) enum Upstream {
    /// To an instance of a service. The scheme says what the request asks for: `lb`, or one within (`lb:ws`).
    Service { service: ServiceId, scheme: &'static str },
    /// To an address.
    Address { address: Arc<Address>, scheme: &'static str },
}

/// An address, as a service of one instance.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) id: ServiceId,
    /// Its id is the authority as it is written.
    pub(super) instance: ServiceInstance,
}

/// What a URI may be.
pub(super) const ALLOWED: &str =
    "lb://service, lb:ws://service (also http, https, wss), or http(s)://host:port, ws(s)://host:port";

/// The addresses: one for each, however many routes lead there, since they share its connections.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<String, Arc<Address>>);

impl Upstream {
    /// Reads the URI of a route, and says whether it has a path, which is not used.
    pub(super) fn parse(text: &str, addresses: &mut Addresses) -> Result<(Self, bool), String> {
        let (outer, rest) = text.split_once(':').ok_or("it has no scheme")?;
        if outer.eq_ignore_ascii_case("lb") {
            let (scheme, rest) = match nested(rest) {
                Some((inner, rest)) => {
                    let scheme = ["lb:http", "lb:https", "lb:ws", "lb:wss"]
                        .into_iter()
                        .find(|known| known[3..].eq_ignore_ascii_case(inner))
                        .ok_or_else(|| format!("{inner} is no scheme that an instance is called by"))?;
                    (scheme, rest)
                }
                None => ("lb", rest),
            };
            let rest = rest.strip_prefix("//").ok_or("it names no service")?;
            let (name, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let service = ServiceId::new(name).map_err(|error| error.to_string())?;
            if name.contains(['@', ':']) {
                return Err(format!("{name:?} is no name of a service"));
            }
            return Ok((Self::Service { service, scheme }, !matches!(path, "" | "/")));
        }
        let scheme = ["http", "https", "ws", "wss"]
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(outer))
            .ok_or_else(|| format!("{outer} is no scheme of a route"))?;
        let rest = rest.strip_prefix("//").ok_or("it names no host")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let address = addresses.address(scheme, authority)?;
        Ok((Self::Address { address, scheme }, !matches!(path, "" | "/")))
    }
}

/// `ws` and `//x` of `ws://x`: a scheme within, as Spring finds one.
fn nested(rest: &str) -> Option<(&str, &str)> {
    let (inner, rest) = rest.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    (inner.starts_with(|c: char| c.is_ascii_alphabetic()) && inner.chars().all(letters))
        .then_some((inner, rest))
}

impl Addresses {
    fn address(&mut self, scheme: &'static str, authority: &str) -> Result<Arc<Address>, String> {
        if authority.contains('@') {
            return Err("it holds a user, which is not sent".to_owned());
        }
        let parsed: http::uri::Authority =
            authority.parse().map_err(|_| format!("{authority:?} is no host"))?;
        let host = parsed.host().trim_start_matches('[').trim_end_matches(']');
        let port: Option<u16> = match parsed.port() {
            Some(port) => {
                Some(port.as_str().parse().ok().filter(|port| *port > 0).ok_or("its port is none")?)
            }
            None if parsed.as_str().len() > parsed.host().len() => return Err("its port is none".to_owned()),
            None => None,
        };
        let secure = matches!(scheme, "https" | "wss");
        let name = format!("{}:{}", if secure { "https" } else { "http" }, authority.to_ascii_lowercase());
        if let Some(there) = self.0.get(&name) {
            return Ok(Arc::clone(there));
        }
        let mut instance = ServiceInstance::builder(host).id(authority).secure(secure);
        if let Some(port) = port {
            instance = instance.port(port);
        }
        let instance = instance.build().map_err(|error| error.to_string())?;
        let id = ServiceId::new(&name).map_err(|error| error.to_string())?;
        let address = Arc::new(Address { id, instance });
        self.0.insert(name, Arc::clone(&address));
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Upstream, bool), String> {
        Upstream::parse(text, &mut Addresses::default())
    }

    #[test]
    fn services_and_addresses() {
        for (text, wanted) in [
            ("lb://orders", "orders lb"),
            ("LB://my_host", "my_host lb"),
            ("lb:ws://chat", "chat lb:ws"),
            ("lb:HTTPS://orders/", "orders lb:https"),
        ] {
            let Ok((Upstream::Service { service, scheme }, false)) = parse(text) else { panic!("{text}") };
            assert_eq!(format!("{service} {scheme}"), wanted);
        }
        for (text, wanted) in [
            ("http://10.0.0.7:8080", "http:10.0.0.7:8080 http"),
            ("HTTPS://Api.test", "https:api.test https"),
            ("ws://[::1]:9000/", "http:[::1]:9000 ws"),
        ] {
            let Ok((Upstream::Address { address, scheme }, false)) = parse(text) else { panic!("{text}") };
            assert_eq!(format!("{} {scheme}", address.id), wanted);
        }
        assert!(parse("lb://orders/x").unwrap().1 && parse("http://a.test/x").unwrap().1);
    }

    #[test]
    fn what_cannot_be_says_why() {
        for (text, why) in [
            ("orders", "no scheme"),
            ("ftp://a.test", "ftp is no scheme"),
            ("lb:orders", "no service"),
            ("lb:ftp://orders", "ftp is no scheme"),
            ("lb://", "empty"),
            ("lb://a b", "blank"),
            ("lb://orders:80", "no name of a service"),
            ("http:a.test", "no host"),
            ("http://", "no host"),
            ("http://a.test:0", "port"),
            ("http://a.test:99999", "port"),
            ("http://u:p@a.test", "a user"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn one_address_is_one_service() {
        let mut addresses = Addresses::default();
        for text in ["http://a.test:80", "HTTP://A.test:80", "ws://a.test:80"] {
            Upstream::parse(text, &mut addresses).unwrap();
        }
        assert_eq!(addresses.0.len(), 1);
    }

    // Spring's `RouteToRequestUrlFilterTests`, case 287 of the spec.
    #[test]
    fn scl_287_a_scheme_within_is_told_from_a_service() {
        for text in ["a123:stuff", "abc:stuff", "a.bc:stuff", "a-bc:stuff", "a+bc:stuff"] {
            assert!(nested(text).is_some(), "{text}");
        }
        for text in ["a", "a123", "123:stuff", "a//:stuff"] {
            assert!(nested(text).is_none(), "{text}");
        }
    }
}
