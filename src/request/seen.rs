//! What a request has, in so few words that a stage can be passed over without a look at it.

use http::{HeaderMap, HeaderName};

use super::Request;

/// Marks of what a request has: if one is missing, so is what it stands for; if it is there, a look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// One bit for each header, which others may share.
    pub(crate) headers: u64,
    pub(crate) flags: u8,
}

impl Seen {
    /// What has everything.
    pub(crate) const ALL: Self = Self { headers: u64::MAX, flags: u8::MAX };
    /// What every request has.
    pub(crate) const ANY: u8 = 1;
    /// The hint that the caller gave.
    pub(crate) const HINT: u8 = 2;
    /// What a view may tell: a path, a query, attributes.
    pub(crate) const VIEW: u8 = 4;

    /// Of a request. Without a look at it if its client does not show its headers as a whole.
    #[inline]
    pub(super) fn of(request: &Request<'_>) -> Self {
        let hint = if request.hint.is_some() { Self::HINT } else { 0 };
        match request.view {
            None => Self { headers: 0, flags: Self::ANY | hint },
            Some(view) => {
                let headers = view.headers().map_or(u64::MAX, marks);
                Self { headers, flags: Self::ANY | Self::VIEW | hint }
            }
        }
    }
}

fn marks(headers: &HeaderMap) -> u64 {
    headers.keys().fold(0, |marks, name| marks | mark(name))
}

/// The bit of a header, by the length and the first letter of its name.
#[inline]
pub(crate) fn mark(name: &HeaderName) -> u64 {
    let name = name.as_str().as_bytes();
    let first = name.first().map_or(0, |byte| usize::from(*byte));
    1 << ((name.len() + 7 * first) % 64)
}
