use std::fmt;
use std::sync::Arc;

use super::xx::Xx64;
use crate::Request;
use crate::request::Named;

/// Where a request's hash comes from: headers, cookies, query parameters, attributes, its path, its source, a function.
///
/// The hash of a text is XXH64 with seed 0. Several parts are combined in their order by the rule of Envoy: the hash so
/// far, turned left by one bit, xor the next one; a part that the request lacks is passed over, and a part marked
/// [`terminal`](Self::terminal) that it has ends the row. **A request that has none of them goes to an instance by
/// chance.** Nothing is allocated, but for a query parameter with escapes in it.
///
/// ```
/// use evenkeel::policy::{HashKey, Maglev};
///
/// // By session, else by source and path.
/// let key = HashKey::cookie("sid").terminal().and(HashKey::source()).and(HashKey::path());
/// let policy = Maglev::new(key);
/// ```
#[derive(Clone, Default)]
pub struct HashKey(Arc<Vec<Part>>);

#[derive(Clone)]
struct Part {
    from: From,
    terminal: bool,
}

#[derive(Clone)]
enum From {
    Header(Named),
    Cookie(String),
    Query(String),
    Attribute(String),
    Path,
    Function(Function),
}

type Function = Arc<dyn Fn(&Request<'_>) -> Option<u64> + Send + Sync>;

impl HashKey {
    /// The attribute in which a client says where a request came from; OpenTelemetry's name for it. Give the address
    /// without its port, which is another one for every connection.
    pub const SOURCE: &'static str = "client.address";

    fn of(from: From) -> Self {
        Self(Arc::new(vec![Part { from, terminal: false }]))
    }

    /// A request header. Several values of one header count as one text, joined with a comma (gRFC A76).
    pub fn header(name: impl Into<String>) -> Self {
        Self::of(From::Header(Named::new(name.into())))
    }

    /// A cookie.
    pub fn cookie(name: impl Into<String>) -> Self {
        Self::of(From::Cookie(name.into()))
    }

    /// A query parameter, its escapes resolved.
    pub fn query(name: impl Into<String>) -> Self {
        Self::of(From::Query(name.into()))
    }

    /// An attribute that the client keeps with its request.
    pub fn attribute(name: impl Into<String>) -> Self {
        Self::of(From::Attribute(name.into()))
    }

    /// The source of the request: its attribute [`SOURCE`](Self::SOURCE).
    pub fn source() -> Self {
        Self::attribute(Self::SOURCE)
    }

    /// The path of the URL, without its query.
    pub fn path() -> Self {
        Self::of(From::Path)
    }

    /// A hash of one's own; `None` when the request has none. [`HashKey::hash_of`] hashes a text.
    ///
    /// ```
    /// use evenkeel::policy::HashKey;
    ///
    /// let tenant = HashKey::function(|request| {
    ///     let tenant = request.header("authorization")?.split_once('/')?.0;
    ///     Some(HashKey::hash_of(tenant))
    /// });
    /// ```
    pub fn function(hash: impl Fn(&Request<'_>) -> Option<u64> + Send + Sync + 'static) -> Self {
        Self::of(From::Function(Arc::new(hash)))
    }

    /// The hash of a text: XXH64 with seed 0.
    pub fn hash_of(text: &str) -> u64 {
        Xx64::of(text.as_bytes())
    }

    /// This key and behind it another one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        Arc::make_mut(&mut self.0).extend(Arc::unwrap_or_clone(other.0));
        self
    }

    /// Nothing behind the last part counts for a request that has this part, or one before it.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        if let Some(last) = Arc::make_mut(&mut self.0).last_mut() {
            last.terminal = true;
        }
        self
    }

    /// Whether it has no part, so that every request goes by chance.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of `request`; `None` when it has nothing that the key names.
    #[inline]
    pub fn hash(&self, request: &Request<'_>) -> Option<u64> {
        let mut combined: Option<u64> = None;
        for part in &*self.0 {
            if let Some(next) = part.hash(request) {
                combined = Some(combined.map_or(next, |hash| hash.rotate_left(1) ^ next));
            }
            if part.terminal && combined.is_some() {
                break;
            }
        }
        combined
    }

    /// Hands `each` the texts of the parts in their order, as one text without separators; whether there was any.
    pub(super) fn texts(&self, request: &Request<'_>, each: &mut dyn FnMut(&[u8])) -> bool {
        let mut any = false;
        for part in &*self.0 {
            any |= part.from.text(request, each);
            if part.terminal && any {
                break;
            }
        }
        any
    }
}

impl Part {
    fn hash(&self, request: &Request<'_>) -> Option<u64> {
        match &self.from {
            From::Cookie(name) => request.raw_cookie(name).map(Xx64::of),
            From::Query(name) => request.query(name).map(|value| HashKey::hash_of(&value)),
            From::Attribute(name) => request.attribute(name).map(HashKey::hash_of),
            From::Path => request.path().map(|path| HashKey::hash_of(&path)),
            From::Function(hash) => hash(request),
            from @ From::Header(_) => {
                let mut hash = Xx64::new();
                from.text(request, &mut |piece| hash.write(piece)).then(|| hash.finish())
            }
        }
    }
}

impl From {
    /// Hands `each` the text in pieces; whether the request has it. A function's hash counts as eight bytes.
    fn text(&self, request: &Request<'_>, each: &mut dyn FnMut(&[u8])) -> bool {
        let mut whole = |text: Option<&[u8]>| text.map(&mut *each).is_some();
        match self {
            Self::Cookie(name) => whole(request.raw_cookie(name)),
            Self::Query(name) => whole(request.query(name).as_deref().map(str::as_bytes)),
            Self::Attribute(name) => whole(request.attribute(name).map(str::as_bytes)),
            Self::Path => whole(request.path().as_deref().map(str::as_bytes)),
            Self::Function(hash) => hash(request).map(|hash| each(&hash.to_le_bytes())).is_some(),
            Self::Header(name) => {
                let mut any = false;
                request.header_values_by(name, &mut |value| {
                    if any {
                        each(b",");
                    }
                    any = true;
                    each(value.as_bytes());
                });
                any
            }
        }
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// As a property spells it: `header:x-user`, and `!` behind a part that is terminal.
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name) = match &self.from {
            From::Header(name) => ("header:", name.text()),
            From::Cookie(name) => ("cookie:", name.as_str()),
            From::Query(name) => ("query:", name.as_str()),
            From::Attribute(name) => ("attribute:", name.as_str()),
            From::Path => ("path", ""),
            From::Function(_) => ("function", ""),
        };
        write!(f, "{word}{name}{}", if self.terminal { "!" } else { "" })
    }
}
