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
//! The plain structs are there without the feature `config`, which brings the file formats.

mod address;
mod api_version;
mod balancer;
mod cache;
mod choices;
mod de;
mod duration;
mod effective;
mod environment;
mod error;
#[cfg(feature = "config")]
mod format;
mod forwarded;
mod health;
mod key;
mod layer;
mod live;
mod names;
mod properties;
mod retry;
mod setters;
mod simple;
mod stages;
mod sticky;
mod subset;
mod timing;
mod words;

pub use api_version::{ApiVersionMatch, ApiVersionProperties};
pub use balancer::{GlobalProperties, LoadBalancerProperties};
pub use cache::{CacheProperties, Staleness};
pub use choices::{PolicyName, Preset, ProbeName, Refresh, StageName, UnknownGroup, ZeroWeight};
pub use duration::parse_duration;
pub use error::{ConfigError, Place, Problem, Warning};
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub use format::Format;
pub use forwarded::{StatsProperties, XForwardedProperties};
pub use health::HealthCheckProperties;
pub use live::LiveProperties;
pub use properties::Properties;
pub use retry::{RetryBackoffProperties, RetryBudgetProperties, RetryProperties, RetryableError};
pub use simple::SimpleInstanceProperties;
pub(crate) use stages::hash_source;
pub use stages::{MetadataRouteProperties, WeightProperties, ZonePreferenceProperties};
pub use sticky::StickySessionProperties;
pub use subset::{SubsetAlgorithm, SubsetProperties};
pub use timing::{BackoffProperties, ServiceDiscoveryProperties};
