use http::HeaderName;

use super::Groups;
use crate::request::{Seen, mark, mark_of_group};

/// What of a request a stage looks at to [select](super::RequestStage::select): for a request that has nothing of it, what the
/// stage says of [`Request::EMPTY`](crate::Request::EMPTY) counts, and it is not asked.
///
/// Most requests have none of the headers that steer others. A chain whose stages say what they read costs such a request
/// next to nothing, however many they are; a stage that names too little is not asked when it should be.
///
/// ```
/// use evenkeel::supplier::Reads;
///
/// let reads = Reads::nothing().with_header("X-Tenant").with_hint();
/// assert_ne!(reads, Reads::anything());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    headers: u64,
    /// The marks of the hints that matter.
    hints: u64,
    flags: u8,
}

/// The hint names a group, and one that names none counts as none.
const GROUP: u8 = 8;

impl Reads {
    /// Whatever it likes, also what is no part of the request: chance, the time, what it remembers.
    #[must_use]
    pub const fn anything() -> Self {
        Self { headers: u64::MAX, hints: u64::MAX, flags: u8::MAX }
    }

    /// Nothing: it says the same of all requests.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { headers: 0, hints: 0, flags: 0 }
    }

    /// And this header. Case does not count.
    #[must_use]
    pub fn with_header(mut self, name: &str) -> Self {
        // What is no name of a header is found in none, unless a view of its own kind has it; such a one has every mark.
        self.headers |= HeaderName::from_bytes(name.as_bytes()).map_or(1, |name| mark(name.as_str()));
        self
    }

    /// And a cookie, whichever.
    #[must_use]
    pub fn with_cookies(self) -> Self {
        self.with_header("cookie")
    }

    /// And the hint that the caller gives with a request ([`Request::with_hint`](crate::Request::with_hint)).
    #[must_use]
    pub const fn with_hint(mut self) -> Self {
        self.flags |= Seen::HINT;
        self
    }

    /// And the hint, if it is the name of a group of the list: any other one counts as none.
    #[must_use]
    pub(crate) const fn with_hint_as_group(mut self) -> Self {
        self.flags |= GROUP;
        self
    }

    /// The same for the groups of a list.
    #[must_use]
    pub(crate) fn among(mut self, groups: &Groups) -> Self {
        if self != Self::anything() && self.flags & GROUP != 0 {
            self.flags &= !GROUP;
            self.hints =
                groups.iter().fold(self.hints, |marks, (_, name)| marks | mark_of_group(name.as_bytes()));
        }
        self
    }

    /// And anything else that a [`RequestView`](crate::RequestView) may tell: the method, the URL, its path and query,
    /// attributes.
    #[must_use]
    pub const fn with_view(mut self) -> Self {
        self.flags |= Seen::VIEW;
        self
    }

    /// What either reads.
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            headers: self.headers | other.headers,
            hints: self.hints | other.hints,
            flags: self.flags | other.flags,
        }
    }

    /// Whether a request that has this may have something of it.
    #[inline]
    pub(crate) const fn concern(self, seen: Seen) -> bool {
        self.headers & seen.headers | self.hints & seen.hint != 0 || self.flags & seen.flags != 0
    }
}
