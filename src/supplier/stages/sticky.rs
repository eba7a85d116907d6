use std::fmt;

use super::super::{Groups, Reads, RequestStage, Selection};
use crate::config::StickySessionProperties;
use crate::{Request, ServiceInstance};

/// Sends a request back to the instance that its cookie names: sessions that live in the memory of one server.
///
/// Only an exact match with an id of the current list has an effect. A value that is stale, forged, empty or anything else
/// means ordinary balancing, without an error. When the instance is out of use, or was tried already, another one is
/// picked; so is it when it is gone. Of two cookies of the name the first counts.
///
/// The value is the id of the instance, as in Spring. Ids tell a client something of the inside; [`with_secret`] puts a
/// keyed digest in their place.
///
/// Who writes the cookie is another matter: `sticky-session.add-service-instance-cookie` adds it to the **outgoing** request
/// of a client, as Spring does; for an answer to a browser, [`value`](Self::value) gives what a `Set-Cookie` should hold.
///
/// ```
/// use evenkeel::supplier::StickySession;
/// use evenkeel::{ServiceInstance, SupplierBuilder};
///
/// let sticky = StickySession::default().with_cookie("SID");
/// let a = ServiceInstance::builder("10.0.0.1").port(80).id("a").build()?;
/// assert_eq!(sticky.value(&a), "a");
/// let hidden = sticky.with_secret("not for the repository");
/// assert_eq!(hidden.value(&a).len(), 32);
/// # Ok::<(), evenkeel::InvalidInstance>(())
/// ```
///
/// [`with_secret`]: Self::with_secret
#[derive(Clone, PartialEq, Eq)]
pub struct StickySession {
    cookie: String,
    /// The halves of the digest's key.
    key: Option<(u64, u64)>,
}

impl Default for StickySession {
    fn default() -> Self {
        Self { cookie: "sc-lb-instance-id".to_owned(), key: None }
    }
}

impl StickySession {
    /// As properties describe it.
    pub(crate) fn of(properties: &StickySessionProperties) -> Self {
        let sticky = Self::default().with_cookie(properties.instance_id_cookie_name.as_str());
        match &properties.secret {
            Some(secret) => sticky.with_secret(secret),
            None => sticky,
        }
    }

    /// The name of the cookie (default `sc-lb-instance-id`).
    #[must_use]
    pub fn with_cookie(mut self, name: impl Into<String>) -> Self {
        self.cookie = name.into();
        self
    }

    /// The cookie holds a digest of the id (SipHash-2-4, 128 bits; Aumasson and Bernstein, 2012) keyed by `secret`, which all
    /// clients that share sessions must share.
    #[must_use]
    pub fn with_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        let halves = digest((0, 0), secret.as_ref());
        self.key = Some(halves);
        self
    }

    /// The name of the cookie.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// What a cookie that means `instance` holds; never a line break.
    pub fn value(&self, instance: &ServiceInstance) -> String {
        match self.key {
            Some(key) => {
                let (high, low) = digest(key, instance.id().as_bytes());
                format!("{high:016x}{low:016x}")
            }
            None => {
                instance.id().chars().filter(|c| !c.is_control() && !matches!(c, ';' | ',' | ' ')).collect()
            }
        }
    }

    /// Whether a cookie can be called so.
    pub(crate) fn has_name(&self) -> bool {
        let token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
        !self.cookie.is_empty() && self.cookie.bytes().all(token)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.has_name() { Ok(()) } else { Err(format!("{:?} is no name of a cookie", self.cookie)) }
    }
}

fn digest(key: (u64, u64), text: &[u8]) -> (u64, u64) {
    let hash = siphasher::sip128::SipHasher24::new_with_keys(key.0, key.1).hash(text);
    (hash.h1, hash.h2)
}

impl RequestStage for StickySession {
    fn name(&self) -> &'static str {
        "sticky-session"
    }

    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}

    fn instance_name(&self, instance: &ServiceInstance) -> Option<String> {
        Some(self.value(instance))
    }

    fn reads(&self) -> Reads {
        Reads::nothing().with_cookies()
    }

    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        match request.raw_cookie(&self.cookie).and_then(|value| groups.instance_of(value)) {
            Some(instance) => Selection::Instance(instance),
            None => Selection::All,
        }
    }
}

/// Without the key.
impl fmt::Debug for StickySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickySession")
            .field("cookie", &self.cookie)
            .field("digest", &self.key.is_some())
            .finish()
    }
}
