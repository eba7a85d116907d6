//! The query of a page: `path=/api&header=x-user:7&header=x-tenant:acme`.

use std::borrow::Cow;

use crate::RequestView;
use crate::observe::{ExplainOptions, Page};

/// The pairs of a query, their escapes resolved.
fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (resolved(name), resolved(value))
    })
}

fn resolved(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let escaped = match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        if let Some(byte) = escaped {
            out.push(byte);
            at += 3;
        } else {
            out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
            at += 1;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// What a page is asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) page: Page,
    pub(super) options: ExplainOptions,
    pub(super) request: Described,
}

/// A request as a query describes it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Described {
    method: Option<String>,
    url: Option<String>,
    pub(super) hint: Option<String>,
    headers: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
}

impl Asked {
    /// Reads a query; an unknown name or a value that cannot be read is an error that names it and what is known.
    pub(super) fn read(query: &str) -> Result<Self, String> {
        let mut asked = Self::default();
        for (name, value) in pairs(query) {
            let value = value.into_owned();
            let number = || {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let read = digits.then(|| value.parse::<usize>().ok()).flatten();
                read.ok_or_else(|| format!("{name} is {value:?}: a whole number is expected"))
            };
            let halves = |separator: char| match value.split_once(separator) {
                Some((name, value)) if !name.trim().is_empty() => {
                    Ok((name.trim().to_owned(), value.trim().to_owned()))
                }
                _ => Err(format!("{name} is {value:?}: a name, {separator:?} and a value are expected")),
            };
            match &*name {
                "offset" => asked.page = asked.page.with_offset(number()?),
                "limit" => asked.page = asked.page.with_limit(number()?),
                "picks" => {
                    let picks = u32::try_from(number()?).unwrap_or(u32::MAX);
                    asked.options = asked.options.with_picks(picks);
                }
                "method" => asked.request.method = Some(value.to_ascii_uppercase()),
                "path" => asked.request.url = Some(value),
                "hint" => asked.request.hint = Some(value),
                "header" => asked.request.headers.push(halves(':')?),
                "attribute" => asked.request.attributes.push(halves('=')?),
                _ => {
                    return Err(format!(
                        "unknown parameter {name:?}: offset, limit, picks, method, path, hint, header and attribute are known"
                    ));
                }
            }
        }
        asked.options = asked.options.with_page(asked.page);
        Ok(asked)
    }
}

impl RequestView for Described {
    fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    fn url(&self) -> Option<Cow<'_, str>> {
        self.url.as_deref().map(Cow::Borrowed)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let same = |(own, _): &&(String, String)| own.eq_ignore_ascii_case(name);
        self.headers.iter().find(same).map(|(_, value)| value.as_str())
    }

    fn header_values(&self, name: &str, each: &mut dyn FnMut(&str)) {
        let same = |(own, _): &&(String, String)| own.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).for_each(|(_, value)| each(value));
    }

    fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case("cookie"));
        let mut pairs =
            cookies.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(own, _)| own.trim() == name).map(|(_, value)| value.trim())
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        let (_, query) = self.url.as_deref()?.split_once('?')?;
        pairs(query).find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_describes_a_request() {
        let text = "path=/api/42%3Fuser%3Da+b&method=post&header=X-User:%207&header=cookie:sid=q;%20t=1&header=x-user:8&hint=blue\
                    &attribute=tenant=acme&offset=3&limit=9&picks=70&&";
        let asked = Asked::read(text).unwrap();
        assert_eq!((asked.page.offset(), asked.page.limit(), asked.options.picks()), (3, 9, 70));
        assert_eq!(asked.options.page(), asked.page);
        let request = &asked.request;
        assert_eq!((request.method(), request.header("x-user")), (Some("POST"), Some("7")));
        assert_eq!(
            (request.path().as_deref(), request.query("user").as_deref()),
            (Some("/api/42"), Some("a b"))
        );
        assert_eq!((request.cookie("t"), request.cookie("x")), (Some("1"), None));
        assert_eq!((request.attribute("tenant"), request.hint.as_deref()), (Some("acme"), Some("blue")));
        let mut values = Vec::new();
        request.header_values("X-USER", &mut |value| values.push(value.to_owned()));
        assert_eq!(values, ["7", "8"]);
        assert_eq!(Asked::read("").unwrap().request, Described::default());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (query, part) in [
            ("limit=-1", "limit is \"-1\""),
            ("picks=", "picks is \"\""),
            ("header=x", "header is \"x\""),
            ("header=:x", "header is \":x\""),
            ("attribute=x", "attribute is \"x\""),
            ("paht=/", "unknown parameter \"paht\""),
        ] {
            let error = Asked::read(query).unwrap_err();
            assert!(error.contains(part), "{query}: {error}");
        }
        assert_eq!(resolved("%zz%4"), "%zz%4");
        assert_eq!(resolved("%ff"), "\u{fffd}");
        assert_eq!(Asked::read("limit=99999&picks=99999999").unwrap().options.picks(), 10_000);
    }
}
