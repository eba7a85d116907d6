//! Properties of the single stages of a chain: zones, weights, routes.

use super::choices::{UnknownGroup, ZeroWeight, ZoneMode};
use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When the own zone is preferred: `evenkeel.zone-preference.*`.
///
/// Defaults: one local instance is enough, and no bound on the traffic it takes, as in Spring.
///
/// ```
/// use evenkeel::config::ZonePreferenceProperties;
///
/// let zones = ZonePreferenceProperties::default().with_min_local_instances(2).with_max_share(1.5);
/// assert_eq!(zones.max_share, Some(1.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ZonePreferenceProperties {
    /// Usable instances the own zone must have to be preferred. Default: 1.
    pub min_local_instances: u32,
    /// Most that one local instance may take of this client's traffic, as a multiple of the even share over all
    /// zones; at least 1. Above it all zones are used. Default: unset, no bound.
    pub max_share: Option<f64>,
    /// Whether the own zone takes everything or its fair part. Default: [`ZoneMode::AllOrNothing`]; proportional under the
    /// preset `kubernetes`.
    pub mode: ZoneMode,
    /// Usable instances without which zones are not used in proportion. Default: 6, as in Envoy.
    pub min_cluster_size: u32,
    /// What each zone gets, whatever the own zone is; zones that are not named get nothing while a named one has an
    /// instance. Default: none, zones have no weights.
    pub weights: BTreeMap<String, u32>,
}

impl Default for ZonePreferenceProperties {
    fn default() -> Self {
        Self {
            min_local_instances: 1,
            max_share: None,
            mode: ZoneMode::AllOrNothing,
            min_cluster_size: 6,
            weights: BTreeMap::new(),
        }
    }
}

impl ZonePreferenceProperties {
    setters! {
        /// Sets how many usable instances the own zone must have. Default: 1.
        with_min_local_instances(min_local_instances: u32) = min_local_instances;
        /// Sets the largest multiple of the even share for one local instance; `None`, the default, is no bound.
        with_max_share(max_share: impl Into<Option<f64>>) = max_share.into();
        /// Sets whether the own zone takes everything or its fair part. Default: [`ZoneMode::AllOrNothing`].
        with_mode(mode: ZoneMode) = mode;
        /// Sets the usable instances without which zones are not used in proportion. Default: 6.
        with_min_cluster_size(min_cluster_size: u32) = min_cluster_size;
        /// Sets the weights of zones. Default: none.
        with_weights(weights: impl IntoIterator<Item = (impl Into<String>, u32)>) =
            weights.into_iter().map(|(zone, weight)| (zone.into(), weight)).collect();
    }
}

/// How weights are read: `evenkeel.weight.*`.
///
/// Defaults: metadata key `weight`, zero drains.
///
/// ```
/// use evenkeel::config::{WeightProperties, ZeroWeight};
///
/// let weight = WeightProperties::default().with_zero(ZeroWeight::One);
/// assert_eq!(weight.metadata_key, "weight");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct WeightProperties {
    /// What a weight of zero means. Default: [`ZeroWeight::Drain`].
    pub zero: ZeroWeight,
    /// The metadata key that holds the weight. Default: `weight`.
    pub metadata_key: String,
}

impl Default for WeightProperties {
    fn default() -> Self {
        Self { zero: ZeroWeight::Drain, metadata_key: "weight".into() }
    }
}

impl WeightProperties {
    setters! {
        /// Sets what a weight of zero means. Default: [`ZeroWeight::Drain`].
        with_zero(zero: ZeroWeight) = zero;
        /// Sets the metadata key that holds the weight. Default: `weight`.
        with_metadata_key(metadata_key: impl Into<String>) = metadata_key.into();
    }
}

/// A rule that sends a request to the instances with a metadata value: `evenkeel.routing[i].*`.
///
/// The request's value is the first one present of header, cookie and query parameter. Of the requests that have none,
/// a share may be sent to a group by percentage. Defaults: no source, no fallback, no percentage, an unknown value may go
/// to every instance.
///
/// ```
/// use evenkeel::config::MetadataRouteProperties;
///
/// let route = MetadataRouteProperties::new("version").with_header("X-Version").with_fallback(["stable"]);
/// assert_eq!(route.fallback, ["stable"]);
/// let canary = MetadataRouteProperties::new("version").with_percent([("canary", 5.0)]).with_hash("cookie:uid");
/// assert_eq!(canary.percent["canary"], 5.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct MetadataRouteProperties {
    /// The metadata key that groups the instances. Required.
    pub metadata: String,
    /// The request header that holds the wanted value. Default: none.
    pub header: Option<String>,
    /// The cookie that holds the wanted value. Default: none.
    pub cookie: Option<String>,
    /// The query parameter that holds the wanted value. Default: none.
    pub query: Option<String>,
    /// Values tried in order when the wanted one has no instance. Default: none.
    pub fallback: Vec<String>,
    /// For values of the metadata key, how many of 100 requests without a value of their own go there; together 100 at
    /// most. Default: none.
    pub percent: BTreeMap<String, f64>,
    /// What decides for good in which share a request is: `header:<name>`, `cookie:<name>` or `query:<name>`. Default:
    /// unset, by chance.
    pub hash: Option<String>,
    /// What happens when neither the wanted value nor a fallback has an instance. Default: [`UnknownGroup::All`].
    pub unknown: UnknownGroup,
}

impl MetadataRouteProperties {
    /// A rule on this metadata key that reads no part of the request yet.
    pub fn new(metadata: impl Into<String>) -> Self {
        Self { metadata: metadata.into(), ..Self::default() }
    }

    setters! {
        /// Sets the metadata key that groups the instances.
        with_metadata(metadata: impl Into<String>) = metadata.into();
        /// Sets the request header that holds the wanted value. Default: none.
        with_header(header: impl Into<String>) = Some(header.into());
        /// Sets the cookie that holds the wanted value. Default: none.
        with_cookie(cookie: impl Into<String>) = Some(cookie.into());
        /// Sets the query parameter that holds the wanted value. Default: none.
        with_query(query: impl Into<String>) = Some(query.into());
        /// Sets the values tried when the wanted one has no instance. Default: none.
        with_fallback(fallback: impl IntoIterator<Item = impl Into<String>>) =
            fallback.into_iter().map(Into::into).collect();
        /// Sets how many of 100 requests without a value go to which value. Default: none.
        with_percent(percent: impl IntoIterator<Item = (impl Into<String>, f64)>) =
            percent.into_iter().map(|(group, share)| (group.into(), share)).collect();
        /// Sets what decides for good in which share a request is. Default: unset, by chance.
        with_hash(hash: impl Into<String>) = Some(hash.into());
        /// Sets what happens when no value has an instance. Default: [`UnknownGroup::All`].
        with_unknown(unknown: UnknownGroup) = unknown;
    }

    /// Whether nothing could ever choose a group: no value is read, and there is no percentage.
    pub(crate) fn never_applies(&self) -> bool {
        self.header.is_none() && self.cookie.is_none() && self.query.is_none() && self.percent.is_empty()
    }
}

/// The word and the name of `header:<name>`, `cookie:<name>` or `query:<name>`.
pub(crate) fn hash_source(text: &str) -> Option<(&str, &str)> {
    let (word, name) = text.split_once(':')?;
    let (word, name) = (word.trim(), name.trim());
    let known = ["header", "cookie", "query"].into_iter().find(|known| word.eq_ignore_ascii_case(known))?;
    let valid = !name.is_empty() && (known != "header" || http::HeaderName::try_from(name).is_ok());
    valid.then_some((known, name))
}
