use super::super::{Groups, Reads, Reason, RequestStage, Selection};
use super::shares::Shares;
use crate::{Request, ServiceInstance};

/// Where a [`MetadataRoute`] finds a value of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The first value of a header.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A query parameter.
    Query(String),
    /// An attribute of the client's request.
    Attribute(String),
}

impl Source {
    /// What `take` makes of the value there, if it holds text; without its outer blanks.
    pub(super) fn read<T>(&self, request: &Request<'_>, take: impl FnOnce(&str) -> T) -> Option<T> {
        let query;
        let value = match self {
            Self::Header(name) => request.header(name),
            Self::Cookie(name) => request.cookie(name),
            Self::Attribute(name) => request.attribute(name),
            Self::Query(name) => {
                query = request.query(name);
                query.as_deref()
            }
        };
        value.map(str::trim).filter(|value| !value.is_empty()).map(take)
    }

    fn name(&self) -> &str {
        match self {
            Self::Header(name) | Self::Cookie(name) | Self::Query(name) | Self::Attribute(name) => name,
        }
    }
}

/// The group of the instances whose value has no share, when others have one. A request that asks for it by this name
/// gets what one without a value gets.
const REST: &str = "\u{2}rest";

/// Sends a request to the instances whose metadata entry equals a value of the request: canaries, versions, tenants.
///
/// The sources are asked in the order in which they were added; the first that holds text counts. A value that no
/// instance has falls back to the values of the fallback list, in order, and then to all instances, or to none with
/// [`or_nothing`](Self::or_nothing). A request without a value takes the fallback list too.
///
/// **By percentage**, for a canary: of the requests without a value of their own, a share is sent to a group
/// ([`with_percent`](Self::with_percent)). With [`with_hash`](Self::with_hash) a value of the request decides, say a
/// user's id, so that a user stays on one side; a request that lacks it, and all of them without a hash, are drawn by
/// chance, each attempt anew. Who is not drawn, or is drawn into a group that has no instance, takes the fallback list,
/// and without one all instances that no share is for.
///
/// The draw of a user for a group is SipHash-2-4, with a key of zeros, of the metadata key, a zero byte, the group's name,
/// a zero byte and the value; it is the same in every version of this crate. Groups draw in the order of their names, each
/// from those that are left: with shares of 5 and 20, the second takes 20/95 of the draws that it sees. So a higher
/// percentage only moves users into its group, never out of it; those it takes from the groups behind it are replaced there
/// by others.
///
/// ```
/// use evenkeel::supplier::{MetadataRoute, Source};
///
/// let by_value = MetadataRoute::by("version").header("X-Version").cookie("version").with_fallback(["stable"]);
/// let canary = MetadataRoute::by("version").with_percent("canary", 5.0).with_hash(Source::Cookie("uid".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRoute {
    key: String,
    sources: Vec<Source>,
    fallback: Vec<String>,
    or_nothing: bool,
    shares: Shares,
}

impl MetadataRoute {
    /// A route by the metadata entry `key`.
    pub fn by(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            sources: Vec::new(),
            fallback: Vec::new(),
            or_nothing: false,
            shares: Shares::default(),
        }
    }

    /// One more place where a request may hold its value.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// A header may hold it.
    #[must_use]
    pub fn header(self, name: impl Into<String>) -> Self {
        self.source(Source::Header(name.into()))
    }

    /// A cookie may hold it.
    #[must_use]
    pub fn cookie(self, name: impl Into<String>) -> Self {
        self.source(Source::Cookie(name.into()))
    }

    /// A query parameter may hold it.
    #[must_use]
    pub fn query(self, name: impl Into<String>) -> Self {
        self.source(Source::Query(name.into()))
    }

    /// Values to take, in order, when the request's own is missing or unknown.
    #[must_use]
    pub fn with_fallback<V: Into<String>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.fallback = values.into_iter().map(Into::into).collect();
        self
    }

    /// A value that neither an instance nor the fallback list satisfies is an error, and a pick never leaves the group.
    /// A request without a value and without a fallback may still go anywhere.
    #[must_use]
    pub fn or_nothing(mut self, yes: bool) -> Self {
        self.or_nothing = yes;
        self
    }

    /// So many of 100 requests without a value of their own go to the instances with this value (default: none); may be
    /// called for several, which together are 100 at most. Fractions count: 0.1 is one of a thousand.
    #[must_use]
    pub fn with_percent(mut self, group: impl Into<String>, percent: f64) -> Self {
        self.shares.set(group.into(), percent);
        self
    }

    /// The value of a request that decides for good in which share it is (default: chance, per attempt).
    #[must_use]
    pub fn with_hash(mut self, by: Source) -> Self {
        self.shares.hash = Some(by);
        self
    }

    /// Draws by chance repeat.
    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.shares.seeded(seed);
        self
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.key.trim().is_empty() {
            return Err("its metadata key is empty".to_owned());
        }
        if self.sources.is_empty() && self.fallback.is_empty() && self.shares.is_empty() {
            return Err(
                "it names neither a header, cookie or query parameter nor a fallback value or percentage"
                    .to_owned(),
            );
        }
        if self.sources.iter().chain(&self.shares.hash).any(|source| source.name().trim().is_empty()) {
            return Err("a header, cookie, query parameter or attribute has no name".to_owned());
        }
        self.shares.check()
    }
}

impl RequestStage for MetadataRoute {
    fn name(&self) -> &str {
        &self.key
    }

    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        // Blanks do not count on either side.
        let value = instance.metadata().get(&self.key).map(str::trim).filter(|value| !value.is_empty());
        if let Some(value) = value {
            emit(value);
        }
        if !self.shares.is_empty() && !value.is_some_and(|value| self.shares.has(value)) {
            emit(REST);
        }
    }

    fn reads(&self) -> Reads {
        if !self.shares.is_empty() {
            // Chance.
            return Reads::anything();
        }
        self.sources.iter().fold(Reads::nothing(), |reads, source| match source {
            Source::Header(name) => reads.with_header(name),
            Source::Cookie(_) => reads.with_cookies(),
            Source::Query(_) | Source::Attribute(_) => reads.with_view(),
        })
    }

    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        self.group(request, groups, || self.shares.draw(&self.key, request))
    }

    fn rehearse(&self, request: &Request<'_>, groups: &Groups, picks: u32) -> Selection {
        self.group(request, groups, || self.shares.foresee(&self.key, request, picks))
    }

    fn refusal(&self, request: &Request<'_>, _: &Groups) -> (Reason, Option<String>) {
        let short = |value: &str| value.chars().take(64).collect::<String>();
        let asked = self.sources.iter().find_map(|source| source.read(request, short));
        let what = match asked {
            Some(value) => format!("no instance has {}={value:?}, which the request asks for", self.key),
            None => format!("no instance has one of the fallback values of {}", self.key),
        };
        (Reason::NoGroup, Some(what))
    }

    fn is_strict(&self) -> bool {
        self.or_nothing
    }
}

impl MetadataRoute {
    /// The group of a request; one without a value of its own is drawn by `draw`.
    #[inline]
    fn group<'a>(
        &'a self,
        request: &Request<'_>,
        groups: &Groups,
        draw: impl FnOnce() -> Option<&'a str>,
    ) -> Selection {
        let own = self.sources.iter().find_map(|source| source.read(request, |value| groups.find(value)));
        let asked = own.is_some();
        let drawn = || draw().and_then(|group| groups.find(group));
        let found = own.unwrap_or_else(|| if self.shares.is_empty() { None } else { drawn() });
        match found.or_else(|| self.fallback.iter().find_map(|value| groups.find(value))) {
            Some(group) => Selection::Group(group),
            None if self.or_nothing && (asked || !self.fallback.is_empty()) => Selection::Nothing,
            None if !asked && !self.shares.is_empty() => groups.find(REST).into(),
            None => Selection::All,
        }
    }
}
