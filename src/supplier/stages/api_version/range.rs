//! Ranges of versions:
//!
//! ```text
//! range       = alternative *( "||" alternative )
//! alternative = comparator *( blanks comparator )            ; all of them hold
//! comparator  = [ "=" / ">" / ">=" / "<" / "<=" / "^" / "~" ] [ blanks ] partial
//! partial     = wild / [ "v" ] number [ "." ( wild / number [ "." ( wild / number ) ] ) ]
//! wild        = "x" / "X" / "*"
//! ```
//!
//! Each alternative is an interval, since there is no "not". It is read without allocation, at every pick.

use std::ops::Range;

use super::version::{LONGEST, Version, number};

/// Behind the last version.
const END: u128 = 1 << 96;

/// Calls `each` with the interval of every alternative, in order, as [`Version::place`]s; one that holds nothing is empty.
/// `None` when `text` is no range; then `each` may have been called.
pub(super) fn read(text: &str, mut each: impl FnMut(Range<u128>)) -> Option<()> {
    if text.len() > LONGEST {
        return None;
    }
    text.split("||").try_for_each(|alternative| {
        each(interval(alternative)?);
        Some(())
    })
}

fn interval(alternative: &str) -> Option<Range<u128>> {
    let mut rest = alternative.trim();
    let mut all = 0..END;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (operator, after) = operator(rest);
        let after = after.trim_start();
        let end = after.find(|c: char| c.is_whitespace() || "=<>^~".contains(c)).unwrap_or(after.len());
        let (word, next) = after.split_at(end);
        let range = bounds(operator, &Partial::read(word)?);
        all = all.start.max(range.start)..all.end.min(range.end);
        // `>=1<2` without a blank would be read as one word elsewhere.
        if !next.is_empty() && !next.starts_with(char::is_whitespace) {
            return None;
        }
        rest = next.trim_start();
    }
    Some(all)
}

#[derive(Clone, Copy)]
enum Operator {
    Equal,
    Above,
    From,
    Below,
    UpTo,
    Caret,
    Tilde,
}

fn operator(text: &str) -> (Operator, &str) {
    for (sign, operator) in [
        (">=", Operator::From),
        ("<=", Operator::UpTo),
        (">", Operator::Above),
        ("<", Operator::Below),
        ("=", Operator::Equal),
        ("^", Operator::Caret),
        ("~", Operator::Tilde),
    ] {
        if let Some(rest) = text.strip_prefix(sign) {
            return (operator, rest);
        }
    }
    (Operator::Equal, text)
}

/// A version of which some numbers may be missing, or left open.
struct Partial {
    numbers: [u32; 3],
    /// How many numbers are given.
    given: usize,
    /// Whether the next one is left open: `1.x`, where `1` is `1.0.0`.
    open: bool,
}

impl Partial {
    fn read(word: &str) -> Option<Self> {
        let mut partial = Self { numbers: [0; 3], given: 0, open: false };
        let word = word.strip_prefix(['v', 'V']).unwrap_or(word);
        for (at, part) in word.split('.').enumerate() {
            let wild = matches!(part, "x" | "X" | "*");
            match number(part) {
                _ if at > 2 => return None,
                // Behind an open number only open ones: `1.x.x`.
                None if wild => partial.open = true,
                Some(_) if partial.open => return None,
                Some(number) => {
                    partial.numbers[at] = number;
                    partial.given = at + 1;
                }
                None => return None,
            }
        }
        Some(partial)
    }

    fn version(&self) -> Version {
        let [major, minor, patch] = self.numbers;
        Version::new(major, minor, patch)
    }

    /// Behind the last version whose first `count` numbers are these.
    fn end(&self, count: usize) -> u128 {
        let shift = match count {
            0 => return END,
            1 => 64,
            2 => 32,
            _ => 0,
        };
        ((self.version().place() >> shift) + 1) << shift
    }

    /// Behind the last version that this one means: `1.2` is one version, `1.x` is many.
    fn last(&self) -> u128 {
        self.end(if self.open { self.given } else { 3 })
    }
}

fn bounds(operator: Operator, partial: &Partial) -> Range<u128> {
    let first = partial.version().place();
    match operator {
        Operator::Equal => first..partial.last(),
        Operator::Above => partial.last()..END,
        Operator::From => first..END,
        Operator::Below => 0..first,
        Operator::UpTo => 0..partial.last(),
        // Up to the next minor version; with one number, to the next major one.
        Operator::Tilde => first..partial.end(partial.given.min(2)),
        // Nothing may change left of the first number that is not 0.
        Operator::Caret => {
            let fixed = partial.numbers[..partial.given].iter().position(|number| *number != 0);
            first..partial.end(fixed.map_or(partial.given, |at| at + 1))
        }
    }
}
