//! Properties: Spring's names and defaults, from files, the environment and code.
//!
//! Every property exists twice, below `evenkeel` and below `spring.cloud.loadbalancer`, and means the same; in one
//! file `evenkeel` wins, with a warning. Below `clients.<id>` stands the same tree again, for one service.
//!
//! ```yaml
//! evenkeel:
//!   preset: kubernetes          # spring (default), kubernetes, modern: other defaults, nothing else
//!   zone: eu-1a
//!   cache:
//!     ttl: 35s                  # 250ms, PT35S, or a plain number of milliseconds
//!   clients:
//!     billing:
//!       cache.ttl: 5s           # a dotted key is the same as a nested one
//!     "[Billing.Api-v2]":       # an id in brackets is taken as it is
//!       policy: least-request
//! spring.cloud.discovery.client.simple.instances:
//!   billing:
//!     - uri: http://10.0.0.7:8080
//!       metadata.zone: eu-1a
//! ```
//!
//! Names may be written in kebab, camel or snake case. `false` and `0` are values; a null is none. An unknown key
//! below our prefixes is a [`Warning`] with the nearest known one, a value that is not allowed is a [`ConfigError`]
//! with key, value, place and what is allowed, and one error tells all of them. Which layer wins is told at
//! [`Properties`]; [`LiveProperties`] replaces a whole set while the process runs.
//!
//! # A real `application.yml`
//!
//! A file of a Spring application is read as Spring documents it, as far as it concerns us:
//!
//! - **Placeholders.** `${name}` and `${name:default}` may stand in any value of ours, and within each other:
//!   `${ZONE:${app.zone}}`. They are looked up in the code ([`Properties::with_value`], [`Properties::set`]), then in the
//!   environment, by the name itself and in upper case (`app.own-zone` is `APP_OWNZONE` or `APP_OWN_ZONE`), then among all
//!   keys of the documents that count, ours or not, the last one first. A name in lower case with dashes finds a key in any
//!   spelling, another one only itself. What is found may hold placeholders too. One that means nothing and has no default
//!   is an error with key, place and name, and so is a circle; but not where a stronger layer says something else.
//!   `\${` is text, as is a brace that is never closed.
//! - **Profiles.** A document with `spring.config.activate.on-profile` counts if one of its expressions holds (`prod`,
//!   `!dev`, `prod & (eu | us)`); so with the older `spring.profiles`, and with `spring.config.activate.on-cloud-platform`.
//!   Active are the profiles of [`Properties::with_profiles`], else those of `SPRING_PROFILES_ACTIVE`, else of
//!   `spring.profiles.active` in a document for all; before them those of `spring.profiles.include`, from every source that
//!   names some, after each the members of its `spring.profiles.group`; if there are none, those of
//!   `spring.profiles.default`, which is `default`. At most 64. All of these may be placeholders; one without a meaning is
//!   an error, for without it the values of another profile would be in force.
//! - **Files.** [`Properties::load`] of `application.yml` reads `application-<profile>.yml` beside it as well, for each
//!   active profile that has one; it counts over the plain file, the last profile over the others.
//! - **The application.** [`Properties::application_name`] is `spring.application.name`;
//!   [`Properties::instance_id`] tells this process from its like.
//! - **Imports.** `spring.config.import` is not followed: a [`Warning`] names each location.
//!
//! Everything else in the file is left alone, whatever it is. Keys of Spring's balancer that have no meaning here are
//! accepted, and [`Properties::ignored`] lists them with the reason. [`Properties::report`] tells for each property what
//! holds and where it came from; [`check()`] does it for a file, so that a job can look at a change before it is in force.
//!
//! The plain structs are there without the feature `config`, which brings the file formats.

mod address;
mod api_version;
mod balancer;
mod cache;
#[cfg(feature = "config")]
mod check;
mod choices;
mod de;
mod duration;
mod effective;
mod environment;
mod error;
#[cfg(feature = "config")]
mod format;
mod forwarded;
mod hash;
mod health;
mod identity;
mod key;
mod layer;
mod live;
mod meaningless;
mod names;
mod outlier;
mod overrides;
mod placeholder;
mod policy;
mod pre_connection;
mod properties;
mod read;
#[cfg(feature = "config")]
mod report;
mod retry;
mod setters;
mod simple;
mod slow_start;
mod stages;
mod sticky;
mod subset;
#[cfg(feature = "gateway")]
mod subtree;
mod timing;
mod values;
mod variables;
mod words;

pub use api_version::{ApiVersionMatch, ApiVersionProperties};
pub use balancer::{GlobalProperties, LoadBalancerProperties};
pub use cache::{CacheProperties, Staleness};
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub use check::{Checked, check};
pub use choices::{
    HostHeader, PolicyName, Preset, ProbeName, Refresh, StageName, UnknownGroup, ZeroWeight, ZoneMode,
};
pub use duration::parse_duration;
pub use error::{ConfigError, Place, Problem, Warning};
#[cfg(feature = "gateway")]
pub(crate) use error::{Issues, without_credentials};
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub use format::Format;
pub use forwarded::{StatsProperties, XForwardedProperties};
pub use hash::HashProperties;
pub use health::HealthCheckProperties;
#[cfg(feature = "gateway")]
pub(crate) use key::uniform;
pub use live::LiveProperties;
pub use outlier::{
    CircuitBreakerProperties, FailurePercentageProperties, OutlierDetectionProperties, OutlierMode,
    SuccessRateProperties,
};
pub use overrides::{Override, OverrideAction, OverrideEnd};
pub use policy::PolicyOptions;
pub use pre_connection::PreConnectionProperties;
pub use properties::Properties;
#[cfg(feature = "reqwest")]
pub(crate) use read::host_name;
#[cfg(feature = "gateway")]
pub(crate) use read::{comma_list, flag};
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub use report::{Origin, Report, ReportEntry};
pub use retry::{
    AdaptiveThrottleProperties, RetryBackoffProperties, RetryBudgetProperties, RetryProperties,
    RetryThrottleProperties, RetryableError,
};
pub use simple::SimpleInstanceProperties;
pub use slow_start::{SlowStartCurve, SlowStartProperties};
pub(crate) use stages::hash_source;
pub use stages::{MetadataRouteProperties, WeightProperties, ZonePreferenceProperties};
pub use sticky::StickySessionProperties;
pub use subset::{SubsetAlgorithm, SubsetProperties};
#[cfg(feature = "gateway")]
pub(crate) use subtree::{Entry, Shape};
pub use timing::{BackoffProperties, ServiceDiscoveryProperties};
