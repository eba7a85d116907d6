//! The small words of reports.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How many letters of a text from elsewhere a report shows.
const SHOWN: usize = 200;

/// A text from elsewhere as it may be shown: on one line, of a bounded length, and without the user and the password of
/// an address in it.
pub(crate) fn safe(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after.find([' ', '"', '\'', ')', ',', '\n']).unwrap_or(after.len());
        // A password may hold a slash that should have been escaped.
        match after[..end].rfind('@') {
            Some(at) => {
                shown.push_str("******");
                shown.push_str(&after[at..end]);
            }
            None => shown.push_str(&after[..end]),
        }
        rest = &after[end..];
    }
    shown.push_str(rest);
    let shown: Cow<'_, str> = if shown.contains(char::is_control) {
        shown.replace(char::is_control, " ").into()
    } else {
        shown.into()
    };
    match shown.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown.into_owned(),
    }
}

/// Milliseconds as a person says them: `320 ms`, `4.2 s`, `17 min`, `3 h 05 min`, `12 d`.
pub(super) struct Span(pub(super) u64);

impl fmt::Display for Span {
    #[allow(clippy::cast_precision_loss)] // below a minute
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, seconds) = (self.0, self.0 / 1_000);
        let text = match seconds {
            0 => format!("{ms} ms"),
            1..=59 => format!("{:.1} s", ms as f64 / 1_000.0),
            60..=3_599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
            3_600..=172_799 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
            _ => format!("{} d", seconds / 86_400),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_password_and_one_line() {
        for (text, shown) in [
            ("plain", "plain"),
            ("GET http://user:secret@consul:8500/v1 failed", "GET http://******@consul:8500/v1 failed"),
            ("(https://a:b/c@d@host), http://ok:1/x", "(https://******@host), http://ok:1/x"),
            ("a\nb\tc", "a b c"),
            ("://", "://"),
            ("x://@", "x://******@"),
        ] {
            assert_eq!(safe(text), shown);
        }
        assert_eq!(safe(&"ä".repeat(1_000)).chars().count(), SHOWN + 3);
    }

    #[test]
    fn spans_are_said_in_the_unit_that_fits() {
        let said = [0, 999, 1_000, 59_949, 60_000, 3_599_999, 3_600_000, 172_799_000, 172_800_000, u64::MAX]
            .map(|ms| Span(ms).to_string());
        let wanted = [
            "0 ms",
            "999 ms",
            "1.0 s",
            "59.9 s",
            "1 min 00 s",
            "59 min 59 s",
            "1 h 00 min",
            "47 h 59 min",
            "2 d",
            "213503982334 d",
        ];
        assert_eq!(said, wanted);
    }
}
