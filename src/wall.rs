//! The clock on the wall: for people who read reports, and for dates in properties.
//!
//! Everything that waits goes by tokio's clock, which a test can pause. A date needs the other one; it is read here and
//! nowhere else, and can be replaced.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the date comes from: the system's clock, unless a function takes its place.
#[derive(Clone, Default)]
pub(crate) struct WallClock(Option<Arc<dyn Fn() -> SystemTime + Send + Sync>>);

impl WallClock {
    pub(crate) fn of(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(clock)))
    }

    pub(crate) fn now(&self) -> SystemTime {
        match &self.0 {
            Some(clock) => clock(),
            #[allow(clippy::disallowed_methods)] // the one place; nothing waits for it
            None => SystemTime::now(),
        }
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "WallClock(injected)" } else { "WallClock(system)" })
    }
}

const DAY: i64 = 86_400;

/// `2026-11-30T20:11:10.123Z`; a time before 1970 is shown as 1970, one after the year 9999 as its end.
pub(crate) fn format(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // 9999-12-31T23:59:59Z
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX).min(253_402_300_799);
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Reads a date and time with its offset, as RFC 3339 has it: `2026-11-30T22:00:00Z`, `2026-11-30 23:00:00.5+01:00`.
/// A time without an offset is none, since it means another moment on another machine; so is one before 1970.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let is = |at: usize, among: &str| among.contains(char::from(text.as_bytes()[at]));
    if !(is(4, "-") && is(7, "-") && is(10, "Tt ") && is(13, ":") && is(16, ":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // A leap second is the second after it.
    if hour > 23 || minute > 59 || second > 60 || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<9.9}", &fraction[..digits]);
        nanos = (digits > 0).then(|| padded.parse::<u32>().ok()).flatten()?;
        rest = &fraction[digits..];
    }
    let offset = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), a, b, b':', c, d] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => {
            let of = |tens: u8, ones: u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
            let (hours, minutes) = (of(*a, *b), of(*c, *d));
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3_600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days * DAY + hour * 3_600 + minute * 60 + second - offset;
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// The date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The other way round.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_796_069_470, "2026-11-30T20:11:10.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000Z"),
            (253_402_300_800, "9999-12-31T23:59:59.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(format(time), text);
        }
        assert_eq!(format(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn offsets_and_fractions_are_read_and_what_is_no_moment_is_refused() {
        let at = |text: &str| parse(text).map(format);
        let noon = Some("2026-11-30T12:00:00.000Z".to_owned());
        for text in [
            "2026-11-30T12:00:00Z",
            " 2026-11-30t12:00:00z ",
            "2026-11-30 12:00:00Z",
            "2026-11-30T13:30:00+01:30",
            "2026-11-29T23:00:00-13:00",
            "2026-11-30T12:00:00.000000000999Z",
        ] {
            assert_eq!(at(text), noon, "{text}");
        }
        assert_eq!(at("2026-06-30T23:59:60Z").as_deref(), Some("2026-07-01T00:00:00.000Z"));
        assert_eq!(at("2026-11-30T12:00:00.25Z").as_deref(), Some("2026-11-30T12:00:00.250Z"));
        for text in [
            "",
            "2026-11-30",
            "2026-11-30T12:00:00",
            "2026-11-30T12:00Z",
            "2026-13-30T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-11-00T12:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T12:60:00Z",
            "2026-11-30T12:00:61Z",
            "2026-11-30T12:00:00.Z",
            "2026-11-30T12:00:00+0100",
            "2026-11-30T12:00:00+24:00",
            "1969-12-31T23:59:59Z",
            "+026-11-30T12:00:00Z",
            "2026-11-30T12:00:00Zulu",
            "tomorrow at noon, 12h",
            "2026\u{2013}11-30T12:00:00Z",
        ] {
            assert_eq!(at(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in 0..253_402_300_800_u64, millis in 0..1_000_u32) {
            let time = UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000);
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
