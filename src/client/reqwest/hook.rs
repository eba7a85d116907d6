//! What is done with responses and cookies before the caller gets them.

use std::fmt;
use std::sync::Arc;

use ::reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};
use ::reqwest::{StatusCode, Url};

use crate::ServiceInstance;
use crate::supplier::StickySession;

/// Sees the head of each response that an instance gave, and may change its headers: the counterpart of a
/// [`RequestTransformer`](crate::client::RequestTransformer).
///
/// Hooks run once for each call, in the order in which they were added, also for a response that redirects; for an answer of
/// a host that is not balanced they do not run.
///
/// ```
/// use evenkeel::client::reqwest::{Incoming, ResponseHook};
/// use http::HeaderValue;
///
/// /// Tells who answered.
/// #[derive(Debug)]
/// struct Named;
///
/// impl ResponseHook for Named {
///     fn on_response(&self, response: &mut Incoming<'_>) {
///         if let Ok(id) = HeaderValue::from_str(response.instance().id()) {
///             response.headers_mut().insert("x-instance", id);
///         }
///     }
/// }
/// ```
pub trait ResponseHook: Send + Sync + fmt::Debug + 'static {
    /// A response came.
    fn on_response(&self, response: &mut Incoming<'_>);
}

/// A response as far as a [`ResponseHook`] may see and change it.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub(super) status: StatusCode,
    pub(super) logical: &'a Url,
    pub(super) instance: &'a ServiceInstance,
    pub(super) attempts: u32,
    pub(super) headers: &'a mut HeaderMap,
}

impl Incoming<'_> {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The URL that was called, with the name of the service.
    pub fn logical_url(&self) -> &Url {
        self.logical
    }

    /// The instance that answered.
    pub fn instance(&self) -> &ServiceInstance {
        self.instance
    }

    /// How many attempts were made, that of this instance included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.headers
    }

    /// The headers, to change them.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers
    }
}

/// Names the instance that answered in a `Set-Cookie` of each response, so that whoever keeps cookies comes back to it: the
/// [cookie store](super::Client::with_cookies) of the client, or the browser to which a server passes the header on.
///
/// The cookie holds for the whole host, is not shown to scripts, and is not sent along from other sites; the rest is a
/// matter of the [`StickySession`], which must be that of the service's chain: its name, and the key of its digest.
///
/// ```no_run
/// use evenkeel::client::reqwest::SetInstanceCookie;
/// use evenkeel::supplier::StickySession;
///
/// # fn example(http: evenkeel::client::reqwest::Client) {
/// let http = http.with_response_hook(SetInstanceCookie::new(StickySession::default()));
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SetInstanceCookie(StickySession);

impl SetInstanceCookie {
    /// With the cookie of these sessions.
    pub fn new(sessions: StickySession) -> Self {
        Self(sessions)
    }
}

impl ResponseHook for SetInstanceCookie {
    fn on_response(&self, response: &mut Incoming<'_>) {
        let value = self.0.value(response.instance());
        // An id of characters that no cookie can hold, and no cookie without a name.
        if value.is_empty() || !self.0.has_name() {
            return;
        }
        let line = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax", self.0.cookie());
        if let Ok(line) = HeaderValue::try_from(line) {
            response.headers_mut().append(SET_COOKIE, line);
        }
    }
}

/// Keeps the cookies of a client: those that services set come back to them, whichever instance answers.
///
/// The cookie store of a [`reqwest::Client`] keeps them by host, and each instance is a host of its own. This one is
/// asked with the **logical** URL: `http://orders/cart`, or `https`, as the caller wrote it; `lb` is `http`. It has the methods
/// of reqwest's own trait, so that reqwest's `Jar` (its feature `cookies`) is one in a few lines:
///
/// ```
/// use evenkeel::client::reqwest::CookieStore;
/// use reqwest::cookie::{CookieStore as _, Jar};
/// use reqwest::{Url, header::HeaderValue};
///
/// #[derive(Debug, Default)]
/// struct Cookies(Jar);
///
/// impl CookieStore for Cookies {
///     fn set_cookies(&self, lines: &mut dyn Iterator<Item = &HeaderValue>, url: &Url) {
///         self.0.set_cookies(lines, url);
///     }
///     fn cookies(&self, url: &Url) -> Option<HeaderValue> {
///         self.0.cookies(url)
///     }
/// }
/// ```
pub trait CookieStore: Send + Sync + fmt::Debug + 'static {
    /// Takes the values of the headers `Set-Cookie` of a response to `url`.
    fn set_cookies(&self, lines: &mut dyn Iterator<Item = &HeaderValue>, url: &Url);

    /// The value of the header `Cookie` for a request to `url`; `None` sends none.
    fn cookies(&self, url: &Url) -> Option<HeaderValue>;
}

/// What a client does beside its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Hooks {
    pub(super) responses: Arc<[Arc<dyn ResponseHook>]>,
    pub(super) cookies: Option<Arc<dyn CookieStore>>,
}

impl Hooks {
    pub(super) fn with(&self, hook: Arc<dyn ResponseHook>) -> Arc<[Arc<dyn ResponseHook>]> {
        self.responses.iter().cloned().chain([hook]).collect()
    }

    /// The cookies for a request, unless it has some.
    pub(super) fn cookies_for(&self, request: &::reqwest::Request) -> Option<HeaderValue> {
        let store = self.cookies.as_ref()?;
        let has_some = request.headers().contains_key(::reqwest::header::COOKIE);
        if has_some { None } else { store.cookies(&plain(request.url())?) }
    }

    /// Keeps the cookies of a response to `url`.
    pub(super) fn keep(&self, url: &Url, headers: &HeaderMap) {
        if let Some(store) = &self.cookies
            && headers.contains_key(SET_COOKIE)
            && let Some(url) = plain(url)
        {
            store.set_cookies(&mut headers.get_all(SET_COOKIE).iter(), &url);
        }
    }
}

/// `lb` is `http`: a store knows no other scheme.
fn plain(url: &Url) -> Option<Url> {
    match url.as_str().strip_prefix("lb:") {
        Some(rest) => Url::parse(&format!("http:{rest}")).ok(),
        None => Some(url.clone()),
    }
}
