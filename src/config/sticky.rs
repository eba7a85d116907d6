//! Properties of sticky sessions.

use super::setters::setters;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Sticky sessions: `evenkeel.sticky-session.*`. They are on for a service whose `configurations` name
/// `request-based-sticky-session`.
///
/// ```
/// use evenkeel::config::StickySessionProperties;
///
/// assert_eq!(StickySessionProperties::default().instance_id_cookie_name, "sc-lb-instance-id");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StickySessionProperties {
    /// The cookie that names an instance. Default: `sc-lb-instance-id`.
    pub instance_id_cookie_name: String,
    /// The key of a digest that stands in the cookie instead of the id; blank means the id. Default: unset. It is not
    /// written out again.
    #[serde(skip_serializing)]
    pub secret: Option<String>,
    /// Whether a call carries the cookie of the instance that it goes to. Default: `false`.
    pub add_service_instance_cookie: bool,
}

impl Default for StickySessionProperties {
    fn default() -> Self {
        Self {
            instance_id_cookie_name: "sc-lb-instance-id".to_owned(),
            secret: None,
            add_service_instance_cookie: false,
        }
    }
}

impl StickySessionProperties {
    setters! {
        /// Sets the cookie that names an instance. Default: `sc-lb-instance-id`.
        with_instance_id_cookie_name(instance_id_cookie_name: impl Into<String>) = instance_id_cookie_name.into();
        /// Sets the key of a digest that stands in the cookie instead of the id. Default: unset.
        with_secret(secret: impl Into<Option<String>>) = secret.into();
        /// Sets whether a call carries the cookie of the instance that it goes to. Default: `false`.
        with_add_service_instance_cookie(add_service_instance_cookie: bool) = add_service_instance_cookie;
    }
}

/// Without the secret.
impl fmt::Debug for StickySessionProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickySessionProperties")
            .field("instance_id_cookie_name", &self.instance_id_cookie_name)
            .field("secret", &self.secret.is_some())
            .field("add_service_instance_cookie", &self.add_service_instance_cookie)
            .finish()
    }
}
