//! The name by which the certificate of an instance is verified.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::ServiceInstance;
use crate::config::host_name;

/// The key of the metadata that holds it.
const KEY: &str = "tls-name";

/// The address of an instance that is called by another name than its host, and that name, in lower case.
///
/// Only an instance whose host is an IP address has one: a host that is a name is verified by that. The entry of the
/// instance comes before the property of its service; with neither, the certificate has to name the address.
pub(crate) fn tls_name<'a>(
    instance: &'a ServiceInstance,
    property: Option<&'a str>,
) -> Result<Option<(IpAddr, Cow<'a, str>)>, NameError> {
    let host = instance.host();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let Ok(address) = host.parse::<IpAddr>() else { return Ok(None) };
    let own = instance.metadata().get(KEY).map(str::trim).filter(|text| !text.is_empty());
    let Some(text) = own else { return Ok(property.map(|name| (address, Cow::Borrowed(name)))) };
    match host_name(text) {
        Some(name) => Ok(Some((address, Cow::Owned(name)))),
        None => Err(NameError { instance: instance.clone(), text: text.to_owned() }),
    }
}

/// The metadata of an instance holds a TLS name that is none.
#[derive(Clone, Debug)]
pub(crate) struct NameError {
    instance: ServiceInstance,
    text: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance, text } = self;
        write!(f, "the metadata of instance {instance} says {KEY}: {text:?}, which is no name of a host")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str, metadata: Option<&str>, property: Option<&str>) -> Result<Option<String>, String> {
        let mut builder = ServiceInstance::builder(host).port(8443);
        if let Some(text) = metadata {
            builder = builder.with_metadata(KEY, text);
        }
        let instance = builder.build().unwrap();
        let name = tls_name(&instance, property).map_err(|error| error.to_string())?;
        Ok(name.map(|(_, name)| name.into_owned()))
    }

    #[test]
    fn only_an_address_has_another_name_and_its_own_entry_comes_first() {
        for (host, metadata, property, expected) in [
            ("10.0.0.1", None, None, None),
            ("10.0.0.1", None, Some("orders.test"), Some("orders.test")),
            ("10.0.0.1", Some(" Pod-1.Orders.test "), Some("orders.test"), Some("pod-1.orders.test")),
            ("10.0.0.1", Some(" "), Some("orders.test"), Some("orders.test")),
            ("::1", Some("orders.test"), None, Some("orders.test")),
            ("[::1]", Some("orders.test"), None, Some("orders.test")),
            ("pod-1.test", Some("orders.test"), Some("orders.test"), None),
        ] {
            let got = name(host, metadata, property).unwrap();
            assert_eq!(got.as_deref(), expected, "{host} {metadata:?} {property:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_an_error_that_says_where_it_stands() {
        for text in ["10.0.0.2", "*.test", "a b", "https://orders.test", "orders.test:443", "a..b", "::1"] {
            let error = name("10.0.0.1", Some(text), Some("orders.test")).unwrap_err();
            assert!(
                error.contains("10.0.0.1:8443") && error.contains(&format!("tls-name: {text:?}")),
                "{error}"
            );
        }
    }
}
