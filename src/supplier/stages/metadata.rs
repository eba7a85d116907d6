use super::super::{Groups, RequestStage, Selection};
use crate::{Request, ServiceInstance};

/// Where a [`MetadataRoute`] finds the value of a request.
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

/// Sends a request to the instances whose metadata entry equals a value of the request: canaries, versions, tenants.
///
/// The sources are asked in the order in which they were added; the first that holds text counts. A value that no
/// instance has falls back to the values of the fallback list, in order, and then to all instances, or to none with
/// [`or_nothing`](Self::or_nothing). A request without a value takes the fallback list too.
///
/// ```
/// use evenkeel::supplier::MetadataRoute;
///
/// let canary = MetadataRoute::by("version").header("X-Version").cookie("version").with_fallback(["stable"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRoute {
    key: String,
    sources: Vec<Source>,
    fallback: Vec<String>,
    or_nothing: bool,
}

impl MetadataRoute {
    /// A route by the metadata entry `key`.
    pub fn by(key: impl Into<String>) -> Self {
        Self { key: key.into(), sources: Vec::new(), fallback: Vec::new(), or_nothing: false }
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

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.key.trim().is_empty() {
            return Err("its metadata key is empty".to_owned());
        }
        if self.sources.is_empty() && self.fallback.is_empty() {
            return Err(
                "it names neither a header, cookie or query parameter nor a fallback value".to_owned()
            );
        }
        let nameless = self.sources.iter().any(|source| match source {
            Source::Header(name) | Source::Cookie(name) | Source::Query(name) | Source::Attribute(name) => {
                name.trim().is_empty()
            }
        });
        if nameless {
            Err("a header, cookie, query parameter or attribute has no name".to_owned())
        } else {
            Ok(())
        }
    }
}

impl RequestStage for MetadataRoute {
    fn name(&self) -> &str {
        &self.key
    }

    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        // Blanks do not count on either side.
        instance
            .metadata()
            .get(&self.key)
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .into_iter()
            .for_each(emit);
    }

    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        let mut asked = false;
        for source in &self.sources {
            let query;
            let value = match source {
                Source::Header(name) => request.header(name),
                Source::Cookie(name) => request.cookie(name),
                Source::Attribute(name) => request.attribute(name),
                Source::Query(name) => {
                    query = request.query(name);
                    query.as_deref()
                }
            };
            let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { continue };
            if let Some(group) = groups.find(value) {
                return Selection::Group(group);
            }
            asked = true;
            break;
        }
        match self.fallback.iter().find_map(|value| groups.find(value)) {
            Some(group) => Selection::Group(group),
            None if self.or_nothing && (asked || !self.fallback.is_empty()) => Selection::Nothing,
            None => Selection::All,
        }
    }

    fn is_strict(&self) -> bool {
        self.or_nothing
    }
}
