//! The header `grpc-timeout`: how long a call may take, its attempts together.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

pub(super) const GRPC_TIMEOUT: &str = "grpc-timeout";

/// The units of the header, in nanoseconds.
const UNITS: [(char, u128); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', 1_000_000_000),
    ('M', 60_000_000_000),
    ('H', 3_600_000_000_000),
];

/// The most that eight digits can say.
const MOST: u128 = 99_999_999;

/// What the caller allows. A value that is none says nothing.
pub(super) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let unit = text.chars().last()?;
    let digits = &text[..text.len() - unit.len_utf8()];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    // At most 99 999 999 hours: far below what both types hold.
    let nanos = digits.parse::<u128>().ok()?.saturating_mul(*nanos);
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, rest))
}

/// The header for what is left, rounded down in the finest unit that can say it.
pub(super) fn header_for(left: Duration) -> HeaderValue {
    let nanos = left.as_nanos();
    let (name, value) = UNITS
        .iter()
        .map(|(name, unit)| (*name, nanos / unit))
        .find(|(_, value)| *value <= MOST)
        .unwrap_or(('H', MOST));
    // Digits and a letter are a header.
    HeaderValue::try_from(format!("{value}{name}")).unwrap_or_else(|_| HeaderValue::from_static("0n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<Duration> {
        timeout_of(&HeaderMap::from_iter([(
            http::HeaderName::from_static(GRPC_TIMEOUT),
            HeaderValue::from_static(text),
        )]))
    }

    #[test]
    fn values_are_read_as_the_protocol_has_them() {
        for (text, timeout) in [
            ("1n", Some(Duration::from_nanos(1))),
            ("20u", Some(Duration::from_micros(20))),
            ("300m", Some(Duration::from_millis(300))),
            ("0S", Some(Duration::ZERO)),
            ("5S", Some(Duration::from_secs(5))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1", None),
            ("1s", None),
            ("1 S", None),
        ] {
            assert_eq!(read(text), timeout, "{text:?}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_left_is_never_more_than_it_was() {
        for left in [
            Duration::ZERO,
            Duration::from_nanos(99_999_999),
            Duration::from_millis(1_234),
            Duration::from_secs(3_601),
            Duration::from_secs(10_000_000_000),
            Duration::MAX,
        ] {
            let header = header_for(left);
            let again =
                timeout_of(&HeaderMap::from_iter([(http::HeaderName::from_static(GRPC_TIMEOUT), header)]));
            let again = again.expect("it can be read");
            let lost = left.checked_sub(again).expect("never more");
            assert!(
                lost <= left / 1_000_000 + Duration::from_nanos(1) || left == Duration::MAX,
                "{left:?}: {again:?}"
            );
        }
    }
}
