//! Instances of the API version that a request asks for.

mod index;
mod range;
mod resolve;
#[cfg(test)]
mod tests;
mod version;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use parking_lot::Mutex;

use self::index::Index;
use self::resolve::Places;
use self::version::Version;
use super::super::{GroupIndex, Groups, Reads, Reason, RequestStage, Selection};
use crate::config::ApiVersionMatch;
use crate::request::Named;
use crate::{Request, ServiceInstance};

/// The metadata entry that holds the version of an instance.
const KEY: &str = "API_VERSION";

/// For so many malformed versions it is remembered that they were told.
const TOLD: usize = 4_096;

/// Sends a request to the instances of the API version that it asks for.
///
/// **What a request asks for** is the first text found in a header, a query parameter, a segment of the path, and the
/// parameter of a media type in `Accept` and then `Content-Type`, in this order, as in Spring; blanks are nothing. At least
/// one of the places must be named. A request that says nothing asks for the default version, if there is one.
///
/// **What an instance has** is its metadata entry `API_VERSION`. A malformed one is a version that nobody asks for; it
/// costs one warning, not the call.
///
/// **A version** is what Spring's semantic parser reads: what stands before the first digit is skipped, then come one to
/// three numbers, and missing ones are 0. So `1`, `1.0`, `v1.0.0` are one version; `1.0-beta` is none.
///
/// **Matching** ([`with_matching`](Self::with_matching)):
///
/// - `exact`, the default: the same version.
/// - `newest-compatible`: the newest version with the same first number that is not older than the one asked for.
/// - `range`: a request asks for a range, and all instances inside it share the traffic. Comparators `=`, `>`, `>=`, `<`,
///   `<=`; blanks between them mean "and": `>=1.2 <2`. `^1.2.3` is below 2.0.0 and `^0.2.3` below 0.3.0: nothing may change
///   left of the first number that is not 0. `~1.2.3` is below 1.3.0, `~1` below 2.0.0. An open number is `x`, `X` or `*`:
///   `1.x`, `1.2.*`, `*`. A version alone is that version, so `1` is 1.0.0 and not `1.x`. `||` stands between
///   alternatives in the order of preference: the first of them that an instance satisfies is used. With more than 8
///   versions in a list the newest one that satisfies takes the traffic, since views for all their ranges are kept ready.
///
/// A text of more than 256 bytes is malformed.
///
/// **When nothing matches**, be it that no instance has the version, that the request's is malformed, or that it has none,
/// the choice is an error that says so, and a later attempt never leaves the group. With
/// [`with_fallback`](Self::with_fallback) such a request may go to any instance instead, and a later attempt too. With
/// [`with_required`](Self::with_required) a request without a version is refused in either case
/// ([`Reason::Required`](crate::Reason::Required)).
///
/// It narrows before the other request stages: a version is a must, a hint is a wish.
///
/// ```
/// use evenkeel::supplier::ApiVersion;
///
/// let versions = ApiVersion::default().with_header("X-Api-Version").with_query_parameter("v").with_default("1");
/// ```
#[derive(Default)]
pub struct ApiVersion {
    places: Places,
    default: Option<String>,
    required: bool,
    fallback: bool,
    matching: ApiVersionMatch,
    /// Hashes of the malformed versions that were told.
    told: Mutex<HashSet<u64>>,
}

impl ApiVersion {
    /// The first value of this header (default: none).
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>) -> Self {
        self.places.header = Some(Named::new(name.into()));
        self
    }

    /// The first value of this query parameter (default: none).
    #[must_use]
    pub fn with_query_parameter(mut self, name: impl Into<String>) -> Self {
        self.places.query = Some(name.into());
        self
    }

    /// This segment of the path, from 0; empty ones do not count (default: none).
    #[must_use]
    pub fn with_path_segment(mut self, at: u32) -> Self {
        self.places.segment = Some(at);
        self
    }

    /// This parameter of a media type; may be called for several (default: none). `*/*`, `application/*` and
    /// `application/*+json` are wild.
    #[must_use]
    pub fn with_media_type_parameter(
        mut self,
        media_type: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        self.places.media.push((media_type.into(), name.into()));
        self
    }

    /// What a request that says nothing asks for (default: nothing).
    #[must_use]
    pub fn with_default(mut self, version: impl Into<String>) -> Self {
        self.default = Some(version.into());
        self
    }

    /// Whether a request that says nothing is refused (default: no). Not together with a default.
    #[must_use]
    pub fn with_required(mut self, yes: bool) -> Self {
        self.required = yes;
        self
    }

    /// Which versions of instances satisfy the one of a request (default: exactly that one).
    #[must_use]
    pub fn with_matching(mut self, matching: ApiVersionMatch) -> Self {
        self.matching = matching;
        self
    }

    /// Whether a request goes to any instance when none has its version (default: no).
    #[must_use]
    pub fn with_fallback(mut self, yes: bool) -> Self {
        self.fallback = yes;
        self
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.places.is_empty() {
            return Err(
                "neither a header, a query parameter, a path segment nor a parameter of a media type \
                        is named, so that no request could ask for a version (api-version.header and so on)"
                    .to_owned(),
            );
        }
        if let (true, Some(version)) = (self.required, &self.default) {
            return Err(format!(
                "a version is required, and there is the default {version:?}: one of both is in vain \
                 (api-version.required, api-version.default)"
            ));
        }
        let header = self.places.header.iter().map(Named::text);
        let names = header.chain(self.places.query.iter().map(String::as_str));
        let named = self.places.media.iter().flat_map(|(media, name)| [media.as_str(), name]);
        if names.chain(named).any(|name| name.trim().is_empty()) {
            return Err("a header, query parameter, media type or its parameter has no name".to_owned());
        }
        if let Some((media, _)) = self.places.media.iter().find(|(media, _)| !media.contains('/')) {
            return Err(format!("{media:?} is no media type (api-version.media-type-parameters)"));
        }
        match &self.default {
            Some(version) if self.is_malformed(version) => {
                Err(format!("the default {version:?} is no {} (api-version.default)", self.kind()))
            }
            _ => Ok(()),
        }
    }

    /// The group that satisfies `text`.
    fn satisfying(&self, text: &str, index: &Index) -> Option<super::super::GroupId> {
        match self.matching {
            ApiVersionMatch::Exact => index.exact(Version::read(text)?),
            ApiVersionMatch::NewestCompatible => index.newest_compatible(Version::read(text)?),
            ApiVersionMatch::Range => {
                let mut found = None;
                range::read(text, |interval| found = found.or_else(|| index.within(&interval)))?;
                found
            }
        }
    }

    fn is_malformed(&self, text: &str) -> bool {
        match self.matching {
            ApiVersionMatch::Range => range::read(text, |_| {}).is_none(),
            _ => Version::read(text).is_none(),
        }
    }

    fn kind(&self) -> &'static str {
        match self.matching {
            ApiVersionMatch::Range => "range of versions such as 1.x or >=1.2 <2",
            _ => "version of one to three numbers",
        }
    }

    /// The version of an instance; a malformed one is told once.
    fn version(&self, instance: &ServiceInstance) -> Option<Version> {
        let text = instance.metadata().get(KEY).map(str::trim).filter(|text| !text.is_empty())?;
        let version = Version::read(text);
        if version.is_none() {
            // The same value in every process is good enough, since nothing depends on it.
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((instance, text));
            let mut told = self.told.lock();
            if told.len() >= TOLD {
                told.clear();
            }
            if told.insert(hash) {
                tracing::warn!(
                    service = instance.service_id().map(tracing::field::display), %instance, key = KEY, value = ?text,
                    "an API version cannot be read: the instance has none"
                );
            }
        }
        version
    }
}

impl RequestStage for ApiVersion {
    fn name(&self) -> &'static str {
        "api-version"
    }

    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        if let Some(version) = self.version(instance) {
            emit(&version.to_string());
        }
    }

    fn groups_of(&self, list: &[&ServiceInstance], emit: &mut dyn FnMut(usize, &str)) {
        let versions: Vec<Option<Version>> = list.iter().map(|instance| self.version(instance)).collect();
        let spans =
            if self.matching == ApiVersionMatch::Range { index::spans(&versions) } else { Vec::new() };
        for (at, version) in versions.into_iter().enumerate() {
            let Some(version) = version else { continue };
            emit(at, &version.to_string());
            for span in spans.iter().filter(|span| span.contains(version)) {
                emit(at, span.name());
            }
        }
    }

    fn index(&self, groups: &Groups) -> Option<GroupIndex> {
        Some(Box::new(Index::new(groups)))
    }

    fn reads(&self) -> Reads {
        self.places.reads()
    }

    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        let said = self.places.find(request);
        let found = match (said.as_deref(), self.default.as_deref()) {
            (None, None) if self.required => return Selection::Nothing,
            (None, None) => None,
            (Some(text), _) | (None, Some(text)) => {
                groups.index::<Index>().and_then(|index| self.satisfying(text, index))
            }
        };
        match found {
            Some(group) => Selection::Group(group),
            None if self.fallback => Selection::All,
            None => Selection::Nothing,
        }
    }

    fn refusal(&self, request: &Request<'_>, groups: &Groups) -> (Reason, Option<String>) {
        let said = self.places.find(request);
        let (reason, why) = match said.as_deref().or(self.default.as_deref()) {
            None if self.required => {
                let why = format!("the request names no API version, which is required: {}", self.places);
                (Reason::Required, why)
            }
            None => (
                Reason::NoGroup,
                format!("the request names no API version, and there is no default: {}", self.places),
            ),
            Some(text) => {
                let short: String = text.chars().take(64).collect();
                let why = if self.is_malformed(text) {
                    format!("the request asks for API version {short:?}, which is no {}", self.kind())
                } else {
                    let there = groups.index::<Index>().map(Index::to_string).unwrap_or_default();
                    format!("no instance has API version {short:?}: there is {there}")
                };
                (Reason::NoGroup, why)
            }
        };
        (reason, Some(why))
    }

    fn is_strict(&self) -> bool {
        !self.fallback
    }
}

impl fmt::Debug for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiVersion")
            .field("places", &self.places)
            .field("default", &self.default)
            .field("required", &self.required)
            .field("fallback", &self.fallback)
            .field("matching", &self.matching)
            .finish_non_exhaustive()
    }
}
