//! Where a request says its version.

use std::borrow::Cow;
use std::fmt;

use crate::Request;
use crate::request::Named;
use crate::supplier::Reads;

/// The headers that hold media types, in the order in which they are asked.
const MEDIA: [&str; 2] = ["accept", "content-type"];

/// The places, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) header: Option<Named>,
    pub(super) query: Option<String>,
    pub(super) segment: Option<u32>,
    /// Media types, each with the name of its parameter.
    pub(super) media: Vec<(String, String)>,
}

impl Places {
    /// The first text that a request holds in one of them, without its outer blanks.
    pub(super) fn find<'a>(&self, request: &Request<'a>) -> Option<Cow<'a, str>> {
        if let Some(name) = &self.header
            && let Some(text) = request.header_by(name).and_then(text)
        {
            return Some(Cow::Borrowed(text));
        }
        if let Some(name) = &self.query
            && let Some(found) = request.query(name)
            && text(&found).is_some()
        {
            return Some(match found {
                Cow::Borrowed(found) => Cow::Borrowed(found.trim()),
                Cow::Owned(found) => Cow::Owned(found.trim().to_owned()),
            });
        }
        if let Some(at) = self.segment
            && let Some(path) = request.path()
        {
            match path {
                Cow::Borrowed(path) => {
                    if let Some(segment) = segment(path, at) {
                        return Some(Cow::Borrowed(segment));
                    }
                }
                Cow::Owned(path) => {
                    if let Some(segment) = segment(&path, at) {
                        return Some(Cow::Owned(segment.to_owned()));
                    }
                }
            }
        }
        if self.media.is_empty() {
            return None;
        }
        MEDIA
            .into_iter()
            .filter_map(|name| request.header(name))
            .flat_map(|line| parts(line, b','))
            .find_map(|entry| self.media.iter().find_map(|(media, name)| parameter(entry, media, name)))
            .map(Cow::Borrowed)
    }

    /// What [`find`](Self::find) looks at.
    pub(super) fn reads(&self) -> Reads {
        let media: &[&str] = if self.media.is_empty() { &[] } else { &MEDIA };
        let headers = self.header.iter().map(Named::text).chain(media.iter().copied());
        let reads = headers.fold(Reads::nothing(), Reads::with_header);
        if self.query.is_some() || self.segment.is_some() { reads.with_view() } else { reads }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// "header X-Api-Version, query parameter v".
impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Vec::new();
        all.extend(self.header.as_ref().map(|name| format!("header {}", name.text())));
        all.extend(self.query.as_ref().map(|name| format!("query parameter {name}")));
        all.extend(self.segment.map(|at| format!("path segment {at}")));
        all.extend(self.media.iter().map(|(media, name)| format!("parameter {name} of {media}")));
        f.write_str(&all.join(", "))
    }
}

fn text(value: &str) -> Option<&str> {
    let value = value.trim();
    (!value.is_empty()).then_some(value)
}

/// The segment `at`, from 0; empty ones do not count.
fn segment(path: &str, at: u32) -> Option<&str> {
    text(path.split('/').filter(|segment| !segment.is_empty()).nth(at as usize)?)
}

/// The parameter `name` of a media type such as `application/json;version=1`, if it is one that `media` means.
fn parameter<'a>(entry: &'a str, media: &str, name: &str) -> Option<&'a str> {
    let mut parts = parts(entry, b';');
    if !is_compatible(parts.next()?.trim(), media) {
        return None;
    }
    parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        key.trim().eq_ignore_ascii_case(name).then_some(value).and_then(text)
    })
}

/// Whether one media type includes the other: `*/*`, `application/*` and `application/*+json` are wild on either side.
fn is_compatible(a: &str, b: &str) -> bool {
    let (Some((a_type, a_sub)), Some((b_type, b_sub))) = (a.split_once('/'), b.split_once('/')) else {
        return false;
    };
    if a_type == "*" || b_type == "*" {
        return true;
    }
    let with_suffix = |wild: &str, other: &str| {
        wild.strip_prefix("*+").is_some_and(|suffix| {
            other.rsplit_once('+').is_some_and(|(_, other)| other.eq_ignore_ascii_case(suffix))
        })
    };
    a_type.eq_ignore_ascii_case(b_type)
        && (a_sub == "*"
            || b_sub == "*"
            || a_sub.eq_ignore_ascii_case(b_sub)
            || with_suffix(a_sub, b_sub)
            || with_suffix(b_sub, a_sub))
}

/// What stands between the separators that are not in quotes.
fn parts(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.bytes().position(|byte| {
            let ends = byte == separator && !quoted;
            quoted ^= byte == b'"' && !escaped;
            escaped = byte == b'\\' && quoted && !escaped;
            ends
        });
        let (part, after) = match end {
            // The separator is ASCII, so both sides are whole texts.
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpView, Request};

    #[test]
    fn places_are_asked_in_springs_order_and_blanks_are_none() {
        let places = Places {
            header: Some(Named::new("X-Api-Version")),
            query: Some("v".to_owned()),
            segment: Some(1),
            media: vec![("application/*+json".to_owned(), "version".to_owned())],
        };
        let found = |uri: &str, headers: &[(&str, &str)]| {
            let mut request = http::Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).unwrap();
            let view = HttpView::of(&request);
            places.find(&Request::of(&view)).map(Cow::into_owned)
        };
        let json = ("accept", "text/html, Application/vnd.a+JSON;q=1;Version=\"4\" , */*");
        for (uri, headers, expected) in [
            ("/api/v3/a?v=2", &[("x-api-version", " 1 "), json][..], Some("1")),
            ("/api/v3/a?v=2", &[("x-api-version", " "), json], Some("2")),
            ("/api/v3/a?v=%3E%3D2+", &[], Some(">=2")),
            ("/api//v3?v=", &[json], Some("v3")),
            ("/api/?v", &[json], Some("4")),
            ("/", &[("accept", "text/plain"), ("content-type", "a/hal+json; version=5")], None),
            ("/", &[("content-type", "application/hal+json; a=\";version=9\"; version=5")], Some("5")),
            ("/", &[("accept", "application/a+xml;version=1")], None),
            ("/", &[("accept", "application;version=1, \"")], None),
            ("/", &[], None),
        ] {
            assert_eq!(found(uri, headers).as_deref(), expected, "{uri} {headers:?}");
        }
        assert_eq!(
            places.to_string(),
            "header X-Api-Version, query parameter v, path segment 1, parameter version of application/*+json"
        );
    }
}
