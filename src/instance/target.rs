//! Where a request to an instance goes: scheme and authority, and nothing else of a URL.

use std::borrow::Cow;
use std::fmt;

use std::sync::Arc;

use super::{InstanceData, ServiceInstance};

/// The scheme and the authority with which an instance is called.
///
/// The scheme is the instance's own; else `https`/`http` (`wss`/`ws` for a websocket) as its `secure` flag says; else
/// the request's, where `lb` and none mean `http`, and `lb:ws` means `ws`. Path, query and escapes of a URL are never
/// touched.
///
/// ```
/// use evenkeel::{ServiceInstance, Target};
///
/// let instance = ServiceInstance::builder("2001:db8::5").port(8443).secure(true).build()?;
/// let target = Target::of(&instance, Some("http"), false)?;
/// assert_eq!(target.url("/a%2Fb?x=%20"), "https://[2001:db8::5]:8443/a%2Fb?x=%20");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    scheme: Cow<'static, str>,
    authority: String,
}

impl Target {
    /// The target of a request whose own scheme is `requested` (case does not count, `None` = it has none).
    ///
    /// # Errors
    /// [`TargetError`] when a request for `https` or `wss` would be sent in the clear, because the instance says
    /// `secure: false`, and `allow_downgrade` is not set.
    pub fn of(
        instance: &ServiceInstance,
        requested: Option<&str>,
        allow_downgrade: bool,
    ) -> Result<Self, TargetError> {
        Ok(Self {
            scheme: scheme_for(&instance.0, requested, allow_downgrade)?,
            authority: instance.authority(),
        })
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// `host` or `host:port`, an IPv6 address in brackets.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The port that is dialled when the instance names none.
    pub fn default_port(&self) -> Option<u16> {
        match &*self.scheme {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            _ => None,
        }
    }

    /// The same with another host.
    #[cfg_attr(not(feature = "reqwest"), allow(dead_code))]
    pub(crate) fn with_host(mut self, host: &str) -> Self {
        let port = self.authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        self.authority = match port {
            Some((_, port)) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        self
    }

    /// The URL of `path_and_query`, whose bytes stay as they are; a missing leading slash is added.
    pub fn url(&self, path_and_query: &str) -> String {
        let slash = if path_and_query.starts_with('/') { "" } else { "/" };
        format!("{}://{}{slash}{path_and_query}", self.scheme, self.authority)
    }

    /// `original` with this scheme and authority: user info and a fragment are left out, the rest stays byte for byte.
    ///
    /// It is a URL, one without a scheme (`//orders/q`), or a path alone (`/q`).
    ///
    /// ```
    /// use evenkeel::{ServiceInstance, Target};
    ///
    /// let target = Target::of(&ServiceInstance::new("10.0.0.1", 80)?, None, false)?;
    /// assert_eq!(target.rewrite("lb://u:p@orders/q?ids=%3CHello=W%3E#top"), "http://10.0.0.1:80/q?ids=%3CHello=W%3E");
    /// assert_eq!(target.rewrite("lb://orders?x"), "http://10.0.0.1:80/?x");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rewrite(&self, original: &str) -> String {
        let rest = UrlParts::of(original).rest;
        self.url(rest.split_once('#').map_or(rest, |(path, _)| path))
    }

    /// `original` with this scheme, host and port, all of them written out; user info, path, query and fragment stay byte
    /// for byte. A port that the instance does not name is the scheme's own.
    ///
    /// ```
    /// use evenkeel::{ServiceInstance, Target};
    ///
    /// let instance = ServiceInstance::builder("10.0.0.1").secure(true).build()?;
    /// let target = Target::of(&instance, Some("ws"), false)?;
    /// assert_eq!(target.reconstruct("ws://me@chat?room=%20a#b"), "wss://me@10.0.0.1:443?room=%20a#b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconstruct(&self, original: &str) -> String {
        let UrlParts { authority, rest, .. } = UrlParts::of(original);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let at = if user.is_empty() { "" } else { "@" };
        let named = self.authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = match self.default_port() {
            Some(port) if !named => format!(":{port}"),
            _ => String::new(),
        };
        format!("{}://{user}{at}{}{port}{rest}", self.scheme, self.authority)
    }
}

/// A URL as text, cut where an address ends: `scheme://authority/rest`, `//authority/rest`, or `/rest` alone.
///
/// A `://` further behind belongs to a path or to a query, and says nothing of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrlParts<'a> {
    pub(crate) scheme: Option<&'a str>,
    /// User info, host and port.
    pub(crate) authority: &'a str,
    /// Path, query and fragment, with what stands before them.
    pub(crate) rest: &'a str,
}

impl<'a> UrlParts<'a> {
    pub(crate) fn of(url: &'a str) -> Self {
        let cut = |text: &'a str| text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()));
        let (first, behind) = cut(url);
        let (scheme, address) = match (first.strip_suffix(':'), behind.strip_prefix("//")) {
            (Some(scheme), Some(after)) => (Some(scheme), after),
            (None, Some(after)) if first.is_empty() => (None, after),
            _ => (None, url),
        };
        let (authority, rest) = cut(address);
        Self { scheme, authority, rest }
    }
}

/// `ws` of `lb:ws`: a scheme for the instance behind the word that says that the host is a service.
pub(crate) fn inner_scheme(scheme: &str) -> &str {
    match scheme.split_once(':') {
        Some((outer, inner)) if outer.eq_ignore_ascii_case("lb") => inner,
        _ => scheme,
    }
}

pub(super) fn scheme_for(
    instance: &Arc<InstanceData>,
    requested: Option<&str>,
    allow_downgrade: bool,
) -> Result<Cow<'static, str>, TargetError> {
    if let Some(own) = &instance.scheme {
        return Ok(known(own));
    }
    let asked = requested.map_or(Asked::Nothing, Asked::of);
    Ok(match (instance.secure, asked) {
        (Some(true), Asked::Websocket { .. }) => Cow::Borrowed("wss"),
        (Some(true), _) => Cow::Borrowed("https"),
        (Some(false), Asked::Http { secure: true } | Asked::Websocket { secure: true })
            if !allow_downgrade =>
        {
            return Err(TargetError {
                instance: ServiceInstance::from_data(Arc::clone(instance)),
                requested: Cow::Borrowed(if matches!(asked, Asked::Http { .. }) { "https" } else { "wss" }),
            });
        }
        (Some(false), Asked::Websocket { .. }) => Cow::Borrowed("ws"),
        (Some(false), _) | (None, Asked::Nothing) => Cow::Borrowed("http"),
        (None, Asked::Http { secure }) => Cow::Borrowed(if secure { "https" } else { "http" }),
        (None, Asked::Websocket { secure }) => Cow::Borrowed(if secure { "wss" } else { "ws" }),
        (None, Asked::Other(scheme)) => Cow::Owned(scheme.to_ascii_lowercase()),
    })
}

/// The scheme that a request asks for.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// None, or `lb`.
    Nothing,
    Http {
        secure: bool,
    },
    Websocket {
        secure: bool,
    },
    Other(&'a str),
}

impl<'a> Asked<'a> {
    fn of(scheme: &'a str) -> Self {
        // As nearly everybody writes it; a call passes here.
        match scheme {
            "lb" => return Self::Nothing,
            "http" => return Self::Http { secure: false },
            "https" => return Self::Http { secure: true },
            _ => {}
        }
        let scheme = inner_scheme(scheme.trim());
        match known(scheme) {
            Cow::Borrowed("http") => Self::Http { secure: false },
            Cow::Borrowed("https") => Self::Http { secure: true },
            Cow::Borrowed("ws") => Self::Websocket { secure: false },
            Cow::Borrowed("wss") => Self::Websocket { secure: true },
            _ if scheme.is_empty() || scheme.eq_ignore_ascii_case("lb") => Self::Nothing,
            _ => Self::Other(scheme),
        }
    }
}

/// The scheme in lower case, without an allocation for the four that matter.
fn known(scheme: &str) -> Cow<'static, str> {
    for name in ["http", "https", "ws", "wss"] {
        if scheme.eq_ignore_ascii_case(name) {
            return Cow::Borrowed(name);
        }
    }
    Cow::Owned(scheme.to_ascii_lowercase())
}

/// A request for `https` or `wss` met an instance that says `secure: false`; it is refused unless `allow-downgrade`
/// is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    instance: ServiceInstance,
    requested: Cow<'static, str>,
}

impl TargetError {
    /// The instance that would have been called in the clear.
    pub fn instance(&self) -> &ServiceInstance {
        &self.instance
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the request asks for {}, but instance {} says secure: false; set allow-downgrade to call it in the clear",
            self.requested, self.instance
        )
    }
}

impl std::error::Error for TargetError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_url_is_cut_where_its_address_ends_and_nothing_is_lost(url in "(lb:)?[a-z]{0,2}[:/?#@.x]{0,12}") {
            let UrlParts { scheme, authority, rest } = UrlParts::of(&url);
            let before = match scheme {
                Some(scheme) => format!("{scheme}://"),
                None if url.starts_with("//") => "//".to_owned(),
                None => String::new(),
            };
            prop_assert_eq!(format!("{before}{authority}{rest}"), url.clone());
            let ends = ['/', '?', '#'];
            prop_assert!(!authority.contains(ends) && !scheme.unwrap_or_default().contains(ends));
            prop_assert!(rest.is_empty() || rest.starts_with(ends));
            // Whatever the caller wrote, the address is that of the instance.
            let instance = ServiceInstance::new("h.test", 81).unwrap();
            let target = Target::of(&instance, scheme, false).unwrap();
            let address = format!("{}://h.test:81/", target.scheme());
            prop_assert!(target.rewrite(&url).starts_with(&address), "{}", target.rewrite(&url));
            let again = target.reconstruct(&url);
            let parts = UrlParts::of(&again);
            prop_assert_eq!(parts.rest, rest);
            prop_assert_eq!(parts.authority.rsplit('@').next(), Some("h.test:81"));
        }
    }
}
