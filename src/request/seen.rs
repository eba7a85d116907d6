//! What a request has, in so few words that a stage can be passed over without a look at it.

use http::HeaderMap;

use super::Request;

/// Marks of what a request has: if one is missing, so is what it stands for; if it is there, a look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// One bit for each header, which others may share.
    pub(crate) headers: u64,
    /// The bit of the hint that the caller gave.
    pub(crate) hint: u64,
    pub(crate) flags: u8,
}

impl Seen {
    /// What has everything.
    pub(crate) const ALL: Self = Self { headers: u64::MAX, hint: u64::MAX, flags: u8::MAX };
    /// What every request has.
    pub(crate) const ANY: u8 = 1;
    /// The hint that the caller gave.
    pub(crate) const HINT: u8 = 2;
    /// What a view may tell: a path, a query, attributes.
    pub(crate) const VIEW: u8 = 4;

    /// Of a request. Without a look at it if its client does not show its headers as a whole.
    #[inline]
    pub(super) fn of(request: &Request<'_>) -> Self {
        let (hint, said) = match request.hint {
            None => (0, Self::ANY),
            Some(hint) => (mark_of_hint(hint.as_bytes()), Self::ANY | Self::HINT),
        };
        match request.view {
            None => Self { headers: 0, hint, flags: said },
            Some(view) => {
                let headers = view.headers().map_or(u64::MAX, marks);
                Self { headers, hint, flags: said | Self::VIEW }
            }
        }
    }
}

fn marks(headers: &HeaderMap) -> u64 {
    headers.keys().fold(0, |marks, name| marks | mark(name.as_str()))
}

/// Any mark if there may be blanks around it, which do not count.
#[inline]
fn mark_of_hint(hint: &[u8]) -> u64 {
    match (hint.first(), hint.last()) {
        (Some(first), Some(last)) if first.is_ascii_graphic() && last.is_ascii_graphic() => {
            mark_of_group(hint)
        }
        (None, _) => 0,
        _ => u64::MAX,
    }
}

/// The bit of a header, by its length and its first letter: a request has many of them.
#[inline]
pub(crate) fn mark(name: &str) -> u64 {
    let first = name.as_bytes().first().map_or(0, |byte| usize::from(*byte));
    1 << ((name.len() + 7 * first) % 64)
}

/// The bit of a group that a hint may name, by its length, its first letter and its last one.
#[inline]
pub(crate) fn mark_of_group(name: &[u8]) -> u64 {
    let letter = |byte: Option<&u8>| byte.map_or(0, |byte| usize::from(*byte));
    1 << ((name.len() + 7 * letter(name.first()) + 11 * letter(name.last())) % 64)
}
