//! Durations as text: `35s`, `250ms`, `PT35S`, or a plain number of milliseconds.

use std::time::Duration;

/// The longest duration a property may hold: 36 500 days, in nanoseconds.
///
/// A century is "for ever" to a balancer, and twice as much still fits every clock the crate adds it to, so no
/// arithmetic behind the properties can overflow.
const LONGEST_NANOS: u128 = 36_500 * DAY;

const MILLI: u128 = 1_000_000;
const SECOND: u128 = 1_000 * MILLI;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;

/// What a duration may look like, for error messages.
pub(crate) const ALLOWED: &str = "a duration from 0 to 36500d: a whole number with ns, us, ms, s, m, h or d (35s, 250ms), ISO-8601 (PT35S), \
     or a plain number of milliseconds";

/// Reads a duration as the property files spell it.
///
/// Accepted are a whole number followed by `ns`, `us`, `ms`, `s`, `m`, `h` or `d` (no space, any case), an
/// ISO-8601 duration of days and smaller (`PT35S`, `PT0.5S`, `P1DT2H`), and a whole number alone, which counts
/// milliseconds as in Spring. `None` for anything else: negative, fractional outside ISO seconds, with inner
/// spaces, or above 36 500 days.
///
/// ```
/// use evenkeel::config::parse_duration;
/// use std::time::Duration;
///
/// assert_eq!(parse_duration("35s"), Some(Duration::from_secs(35)));
/// assert_eq!(parse_duration("PT0.25S"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("250"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("0"), Some(Duration::ZERO));
/// assert_eq!(parse_duration("-1s"), None);
/// assert_eq!(parse_duration("35 s"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let nanos = match text.as_bytes().first()? {
        b'P' | b'p' => iso_nanos(&text[1..])?,
        _ => simple_nanos(text)?,
    };
    if nanos > LONGEST_NANOS {
        return None;
    }
    let seconds = u64::try_from(nanos / SECOND).ok()?;
    let rest = u32::try_from(nanos % SECOND).ok()?;
    Some(Duration::new(seconds, rest))
}

/// A whole number and an optional unit.
fn simple_nanos(text: &str) -> Option<u128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "" | "ms" => MILLI,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        _ => return None,
    };
    whole(number)?.checked_mul(scale)
}

/// The part of an ISO-8601 duration after its `P`. Years and months have no fixed length and are refused.
fn iso_nanos(text: &str) -> Option<u128> {
    let upper = text.to_ascii_uppercase();
    let (date, time) = match upper.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (upper.as_str(), ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut total = 0u128;
    let mut add = |nanos: u128| -> Option<()> {
        total = total.checked_add(nanos)?;
        Some(())
    };
    let mut rest = date;
    for (unit, scale) in [('W', 7 * DAY), ('D', DAY)] {
        if let Some((number, after)) = rest.split_once(unit) {
            add(whole(number)?.checked_mul(scale)?)?;
            rest = after;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    rest = time;
    for (unit, scale) in [('H', HOUR), ('M', MINUTE)] {
        if let Some((number, after)) = rest.split_once(unit) {
            add(whole(number)?.checked_mul(scale)?)?;
            rest = after;
        }
    }
    if let Some((number, after)) = rest.split_once('S') {
        add(fractional_seconds(number)?)?;
        rest = after;
    }
    rest.is_empty().then_some(total)
}

/// Seconds with at most nine digits after the point.
fn fractional_seconds(text: &str) -> Option<u128> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = (fraction.len()..9).fold(1u128, |scale, _| scale * 10);
    whole(seconds)?.checked_mul(SECOND)?.checked_add(whole(fraction)? * scale)
}

/// Digits only: `parse` alone would let a plus sign through.
fn whole(text: &str) -> Option<u128> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Writes a duration in the largest unit that keeps it whole: `35s`, `250ms`, `0s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (scale, unit) = if nanos.is_multiple_of(SECOND) {
        (SECOND, "s")
    } else if nanos.is_multiple_of(MILLI) {
        (MILLI, "ms")
    } else {
        (1, "ns")
    };
    format!("{}{unit}", nanos / scale)
}

/// Serde for a [`Duration`] field.
pub(crate) mod text {
    use super::{ALLOWED, Duration, format_duration, parse_duration};
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(Text)
    }

    struct Text;

    impl Visitor<'_> for Text {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(ALLOWED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse_duration(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }

        fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
            self.visit_str(&millis.to_string())
        }

        fn visit_i64<E: Error>(self, millis: i64) -> Result<Duration, E> {
            self.visit_str(&millis.to_string())
        }
    }
}

/// Serde for an `Option<Duration>` field; a missing or null value is `None`.
pub(crate) mod optional_text {
    use super::{Duration, text};
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Wrapped(#[serde(with = "text")] Duration);

    #[expect(clippy::ref_option, reason = "serde's `with` fixes the signature")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => text::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|wrapped| wrapped.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let table = [
            ("35s", 35_000),
            ("250ms", 250),
            ("250MS", 250),
            ("250", 250),
            ("0", 0),
            ("0s", 0),
            ("000", 0),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            (" 35s ", 35_000),
            ("PT35S", 35_000),
            ("pt35s", 35_000),
            ("PT0.5S", 500),
            ("PT1M30S", 90_000),
            ("PT1H", 3_600_000),
            ("P1D", 86_400_000),
            ("P1DT1H", 90_000_000),
            ("P1W", 604_800_000),
            ("PT0S", 0),
        ];
        for (text, millis) in table {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("7ns"), Some(Duration::from_nanos(7)));
        assert_eq!(parse_duration("7us"), Some(Duration::from_micros(7)));
        assert_eq!(parse_duration("PT0.000000001S"), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn hostile_values_are_refused() {
        let table = [
            "",
            " ",
            "s",
            "ms",
            "-1",
            "-1s",
            "+1s",
            "35 s",
            "1.5s",
            "1e3",
            "1e999s",
            "NaN",
            "inf",
            "infinity",
            "1s2",
            "1s 2s",
            "P",
            "PT",
            "PTS",
            "P1",
            "PT1",
            "P1S",
            "PT1D",
            "P1Y",
            "P1M",
            "PT-1S",
            "-PT1S",
            "PT1S1M",
            "PT1.S",
            "PT.S",
            "PT.5S",
            "PT0.0000000001S",
            "PT1.5M",
            "P1DT",
            "PT1SX",
            "36501d",
            "99999999999999999999d",
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211456s",
            "18446744073709551616",
            "0x10",
            "1_000",
            "true",
            "٣s",
            "1µ",
            "PT1e9S",
            "\u{0}",
        ];
        for text in table {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
        assert!(parse_duration(&"9".repeat(100_000)).is_none());
    }

    #[test]
    fn the_longest_is_a_century() {
        assert_eq!(parse_duration("36500d").map(|longest| longest.as_secs()), Some(36_500 * 86_400));
        assert!(parse_duration("36500d").is_some_and(|longest| longest.checked_mul(2).is_some()));
    }

    #[test]
    fn written_and_read_again() {
        for duration in
            [Duration::ZERO, Duration::from_secs(35), Duration::from_millis(1500), Duration::new(1, 1)]
        {
            assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }
    }
}
