//! Properties of API versions.

use super::setters::setters;
use super::words::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// Which versions of instances satisfy the version of a request.
    ///
    /// Property: `evenkeel.api-version.matching`. Default: `exact`.
    ApiVersionMatch, "exact, range or newest-compatible" {
        /// The same version, as in Spring.
        #[default]
        Exact = "exact",
        /// The request may ask for a range, such as `>=1.2 <2` or `1.x`.
        Range = "range",
        /// The newest version with the same first number that is not older than the one asked for.
        NewestCompatible = "newest-compatible",
    }
}

/// Instances by API version: `evenkeel.api-version.*`, for a service whose `configurations` name `api-version`.
///
/// A request's version is the first found of header, query parameter, path segment and media type parameter, in this
/// order; an instance's is its metadata `API_VERSION`. At least one of the four has to be set.
///
/// ```
/// use evenkeel::config::ApiVersionProperties;
///
/// let versions = ApiVersionProperties::default().with_header("X-Api-Version".to_owned());
/// assert!(!versions.fallback_to_available_instances);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ApiVersionProperties {
    /// Whether a request without a version is refused. Default: `false`.
    pub required: bool,
    /// The version of a request that has none; not together with `required`. Default: unset.
    pub default: Option<String>,
    /// The header that holds the version. Default: unset.
    pub header: Option<String>,
    /// The query parameter that holds the version. Default: unset.
    pub query_parameter: Option<String>,
    /// The segment of the path, from 0, that holds the version. Default: unset.
    pub path_segment: Option<u32>,
    /// For media types of `Accept` and `Content-Type`, the parameter that holds the version. Default: none.
    pub media_type_parameters: BTreeMap<String, String>,
    /// Whether a request goes to any instance when none has its version. Default: `false`.
    pub fallback_to_available_instances: bool,
    /// Which versions satisfy a request. Default: [`ApiVersionMatch::Exact`].
    pub matching: ApiVersionMatch,
}

impl ApiVersionProperties {
    setters! {
        /// Sets whether a request without a version is refused. Default: `false`.
        with_required(required: bool) = required;
        /// Sets the version of a request that has none. Default: unset.
        with_default(default: impl Into<Option<String>>) = default.into();
        /// Sets the header that holds the version. Default: unset.
        with_header(header: impl Into<Option<String>>) = header.into();
        /// Sets the query parameter that holds the version. Default: unset.
        with_query_parameter(query_parameter: impl Into<Option<String>>) = query_parameter.into();
        /// Sets the segment of the path, from 0, that holds the version. Default: unset.
        with_path_segment(path_segment: impl Into<Option<u32>>) = path_segment.into();
        /// Sets for media types the parameter that holds the version. Default: none.
        with_media_type_parameters(media_type_parameters: impl IntoIterator<Item = (String, String)>) =
            media_type_parameters.into_iter().collect();
        /// Sets whether a request goes to any instance when none has its version. Default: `false`.
        with_fallback_to_available_instances(fallback_to_available_instances: bool) =
            fallback_to_available_instances;
        /// Sets which versions satisfy a request. Default: [`ApiVersionMatch::Exact`].
        with_matching(matching: ApiVersionMatch) = matching;
    }
}
