//! Host names and addresses in one normal form.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The normal form of a host: no brackets, no trailing dot, lower case, IPv6 in its canonical text; or why it is none.
///
/// `::1`, `[::1]` and `0:0:0:0:0:0:0:1` must become one text, since the host is part of an instance's identity.
pub(super) fn normalise(given: &str) -> Result<Arc<str>, &'static str> {
    let text = given.trim();
    let bare = match (text.strip_prefix('['), text.ends_with(']')) {
        (Some(rest), true) => &rest[..rest.len() - 1],
        (None, false) => text,
        _ => return Err("the brackets do not match"),
    };
    if bare.is_empty() {
        return Err("it is empty");
    }
    if bare.contains(':') {
        return match bare.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string().into()),
            Err(_) => Err("it is no IPv6 address (a scope id is not supported)"),
        };
    }
    if text.starts_with('[') {
        return Err("only an IPv6 address stands in brackets");
    }
    let name = bare.strip_suffix('.').unwrap_or(bare);
    if name.is_empty() || name.starts_with('.') || name.contains("..") {
        return Err("a label is empty");
    }
    if name.len() > 253 {
        return Err("it is longer than 253 characters");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err("it holds a character that no host name has");
    }
    // "10.0.0.300" would be taken for a name and asked of a resolver.
    let numeric = name.split('.').all(|label| label.bytes().all(|b| b.is_ascii_digit()));
    if numeric && name.parse::<Ipv4Addr>().is_err() {
        return Err("it is no IPv4 address");
    }
    Ok(name.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn case_046_one_form_for_every_spelling() {
        for (given, normal) in [
            ("2001:db8::5", "2001:db8::5"),
            ("[2001:DB8::6]", "2001:db8::6"),
            ("[0:0:0:0:0:0:0:1]", "::1"),
            ("Node-3.Example.Internal.", "node-3.example.internal"),
            (" 10.0.0.7 ", "10.0.0.7"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(&*normalise(given).unwrap(), normal);
        }
    }

    #[test]
    fn case_046_garbage_is_refused() {
        for bad in [
            "",
            " ",
            "2001:db8:::5",
            "[::1",
            "::1]",
            "[10.0.0.1]",
            "10.0.0.300",
            "10.0.0",
            "a b",
            "a/b",
            "a@b",
            "host:80",
            "..",
            "a..b",
            ".a",
            "fe80::1%eth0",
            "é.example",
        ] {
            assert!(normalise(bad).is_err(), "{bad}");
        }
        assert!(normalise(&"a".repeat(254)).is_err());
    }
}
