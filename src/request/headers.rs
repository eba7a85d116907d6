//! What is looked up in the headers of a request, at every pick.

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::bytes::same;

/// Up to so many headers are looked through one by one, which is then faster than a hash of the name.
const FEW: usize = 8;
/// The same for a name that was made ready, which neither has to be read before.
const FEW_NAMED: usize = 12;

/// The name of a header, made ready once to be looked up often: to compare it with another one is a few instructions then,
/// and letters of either case need no care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named(Box<Both>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Both {
    text: Box<str>,
    /// `None` if no header of HTTP can be called so.
    name: Option<HeaderName>,
}

impl Named {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        Self(Box::new(Both { name: HeaderName::from_bytes(text.as_bytes()).ok(), text }))
    }

    /// As it was given.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// Its first value.
    #[inline]
    pub(super) fn first<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        value(headers, self.0.name.as_ref()?)?.to_str().ok()
    }

    /// Hands `each` all of its values that are text, in their order.
    pub(super) fn all(&self, headers: &HeaderMap, each: &mut dyn FnMut(&str)) {
        if let Some(name) = &self.0.name
            && value(headers, name).is_some()
        {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).for_each(each);
        }
    }
}

/// The first value of a header.
#[inline]
fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    if headers.keys_len() > FEW_NAMED {
        return headers.get(name);
    }
    headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The first value of a header whose name is plain text.
pub(super) fn first<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = if headers.keys_len() <= FEW {
        let is_it = |key: &str| key.len() == name.len() && key.eq_ignore_ascii_case(name);
        if !headers.keys().any(|key| is_it(key.as_str())) {
            return None;
        }
        headers.iter().find(|(key, _)| is_it(key.as_str())).map(|(_, value)| value)
    } else {
        headers.get(name)
    };
    value?.to_str().ok()
}

/// Hands `each` all values that are text of a header whose name is plain text, in their order.
pub(super) fn all(headers: &HeaderMap, name: &str, each: &mut dyn FnMut(&str)) {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).for_each(each);
}

/// The first value of a cookie, as it came.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    // One header with several pairs and several headers with one (HTTP/2) mean the same.
    let found = |line: &'a HeaderValue| cookie_in(line.as_bytes(), name.as_bytes());
    let first = value(headers, &COOKIE)?;
    // Nearly always there is one line.
    found(first).or_else(|| headers.get_all(COOKIE).iter().skip(1).find_map(found))
}

/// The value of the first cookie `name` in a line, without blanks and quotes around it.
fn cookie_in<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        while let [blank, after @ ..] = rest
            && blank.is_ascii_whitespace()
        {
            rest = after;
        }
        // The name first: of other cookies nothing is looked at but where they end.
        if let Some(value) = value_of(rest, name) {
            return Some(bare(&value[..semicolon(line, value).unwrap_or(value.len())]));
        }
        rest = &rest[semicolon(line, rest)? + 1..];
    }
}

/// What stands behind `name` and its equals sign.
#[inline]
fn value_of<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // One byte tells nearly all strangers.
    if let ([one, ..], [other, ..]) = (pair, name)
        && one != other
    {
        return None;
    }
    let (start, behind) = pair.split_at_checked(name.len())?;
    if !same(start, name) {
        return None;
    }
    match behind {
        [b'=', value @ ..] => Some(value),
        blanks => blanks.trim_ascii_start().strip_prefix(b"="),
    }
}

/// Without blanks and quotes around it.
#[inline]
fn bare(value: &[u8]) -> &[u8] {
    // Nearly always there are none, and two bytes tell.
    if let [first, .., last] = value
        && first.is_ascii_graphic()
        && last.is_ascii_graphic()
        && *first != b'"'
    {
        return value;
    }
    let value = value.trim_ascii();
    value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value)
}

/// How far the first semicolon is in `rest`, with which `line` ends; eight bytes at a time.
#[inline]
fn semicolon(line: &[u8], rest: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    // The lowest bit of the highest ones of bytes tells the first byte that was a semicolon, and is 0 then.
    let marks = |word: u64| {
        let word = word ^ (ONES * u64::from(b';'));
        word.wrapping_sub(ONES) & !word & (ONES << 7)
    };
    let mut tail = rest;
    while let Some((word, after)) = tail.split_first_chunk() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(rest.len() - tail.len() + marks.trailing_zeros() as usize / 8);
        }
        tail = after;
    }
    let before = rest.len() - tail.len();
    match line.last_chunk() {
        _ if tail.is_empty() => None,
        // The last eight bytes, of which those before the tail are shifted out; the zeros instead are no semicolons.
        Some(last) => {
            let marks = marks(u64::from_le_bytes(*last) >> (64 - 8 * tail.len()));
            (marks != 0).then(|| before + marks.trailing_zeros() as usize / 8)
        }
        None => tail.iter().position(|byte| *byte == b';').map(|at| before + at),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> HeaderName {
        HeaderName::from_bytes(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_made_ready_finds_what_its_text_finds() {
        for extra in [0, 3, 20] {
            let mut headers = HeaderMap::new();
            headers.append("x-hint", HeaderValue::from_static("blue"));
            headers.append("accept", HeaderValue::from_static("text/html"));
            headers.append("x-hint", HeaderValue::from_static("green"));
            headers.append("x-odd", HeaderValue::from_bytes(b"\xff").unwrap());
            headers.append("x-odd", HeaderValue::from_static("even"));
            for at in 0..extra {
                headers.insert(name(&format!("x-{at}")), HeaderValue::from_static("1"));
            }
            for text in ["X-Hint", "x-hint", "ACCEPT", "x-hin", "x-odd", "cookie", "", "no name\n", "x-2"] {
                let named = Named::new(text);
                assert_eq!(named.first(&headers), first(&headers, text), "{text:?}, {extra} more");
                let (mut one, mut other) = (Vec::new(), Vec::new());
                named.all(&headers, &mut |value| one.push(value.to_owned()));
                all(&headers, text, &mut |value| other.push(value.to_owned()));
                assert_eq!(one, other, "{text:?}, {extra} more");
            }
            assert_eq!(Named::new("X-HINT").first(&headers), Some("blue"));
            let mut hints = Vec::new();
            all(&headers, "X-HINT", &mut |value| hints.push(value.to_owned()));
            assert_eq!(hints, ["blue", "green"]);
            // What is no text is no value; the first one is.
            assert_eq!(first(&headers, "x-odd"), None);
        }
        assert_eq!(Named::new("No Name").text(), "No Name");
    }

    proptest! {
        #[test]
        fn a_cookie_is_what_a_plain_reading_finds(line in "[a;=\\x22 b]{0,30}", name in "a{0,3}") {
            let plain = line.split(';').filter_map(|pair| pair.split_once('=')).find(|(key, _)| key.trim() == name);
            let plain = plain.map(|(_, value)| {
                let value = value.trim();
                value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).as_bytes()
            });
            prop_assert_eq!(cookie_in(line.as_bytes(), name.as_bytes()), plain);
        }

        #[test]
        fn a_semicolon_is_found_where_it_is(
            bytes in proptest::collection::vec(proptest::sample::select(vec![0, b';', b':', b'<', 0xbb, 0xff]), 0..40),
            from in 0_usize..40,
        ) {
            let from = from.min(bytes.len());
            let plain = bytes[from..].iter().position(|byte| *byte == b';');
            prop_assert_eq!(semicolon(&bytes, &bytes[from..]), plain);
        }
    }
}
