//! What a client does when it is redirected, as its user says.

use std::fmt;
use std::sync::Arc;

use ::reqwest::{StatusCode, Url};

use crate::ServiceId;

/// How many redirects are followed by default: as many as reqwest follows.
const LIMIT: usize = 10;

/// Which redirects a [`Client`](super::Client) follows (default: up to 10 in a row).
///
/// ```no_run
/// use evenkeel::client::reqwest::{Client, RedirectAction, RedirectPolicy};
///
/// # fn example(http: Client) {
/// // Redirects stay inside: to services, and nowhere else.
/// let inside = http.with_redirects(RedirectPolicy::custom(|redirect| match redirect.service() {
///     Some(_) if redirect.previous().len() <= 5 => RedirectAction::Follow,
///     Some(_) => RedirectAction::refuse("that is too far"),
///     None => RedirectAction::Stop,
/// }));
/// # }
/// ```
#[derive(Clone)]
pub struct RedirectPolicy(Kind);

type Decide = dyn Fn(&Redirect<'_>) -> RedirectAction + Send + Sync;

#[derive(Clone)]
enum Kind {
    None,
    Limited(usize),
    Custom(Arc<Decide>),
}

impl Default for RedirectPolicy {
    fn default() -> Self {
        Self::limited(LIMIT)
    }
}

impl RedirectPolicy {
    /// None is followed: the caller gets the response that redirects.
    pub const fn none() -> Self {
        Self(Kind::None)
    }

    /// At most so many in a row; one more is an error, and so is a circle: the same method and URL again, with the same
    /// headers.
    pub const fn limited(most: usize) -> Self {
        Self(Kind::Limited(most))
    }

    /// The closure decides, redirect by redirect. It has to find an end by itself: nothing else holds, neither the limit nor
    /// the look for circles.
    pub fn custom(decide: impl Fn(&Redirect<'_>) -> RedirectAction + Send + Sync + 'static) -> Self {
        Self(Kind::Custom(Arc::new(decide)))
    }

    pub(super) const fn follows_none(&self) -> bool {
        matches!(self.0, Kind::None)
    }

    /// What to do; `circle`: the same request was sent before.
    pub(super) fn decide(&self, redirect: &Redirect<'_>, circle: bool) -> Result<bool, Fault> {
        match &self.0 {
            Kind::None => Ok(false),
            Kind::Limited(_) if circle => Err(Fault::Circle),
            Kind::Limited(most) if redirect.previous.len() > *most => Err(Fault::TooMany(*most)),
            Kind::Limited(_) => Ok(true),
            Kind::Custom(decide) => match decide(redirect) {
                RedirectAction::Follow => Ok(true),
                RedirectAction::Stop => Ok(false),
                RedirectAction::Refuse(why) => Err(Fault::Refused(why)),
            },
        }
    }
}

impl fmt::Debug for RedirectPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::None => f.write_str("RedirectPolicy::None"),
            Kind::Limited(most) => write!(f, "RedirectPolicy::Limited({most})"),
            Kind::Custom(_) => f.write_str("RedirectPolicy::Custom"),
        }
    }
}

/// A redirect that may be followed.
#[derive(Debug)]
pub struct Redirect<'a> {
    pub(super) status: StatusCode,
    pub(super) url: &'a Url,
    pub(super) previous: &'a [Url],
    pub(super) service: Option<&'a ServiceId>,
}

impl Redirect<'_> {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Where it leads: the header `Location`, resolved against the URL before.
    pub fn url(&self) -> &Url {
        self.url
    }

    /// The service that it leads to, if it does: that it is named, or that the URL is the address of an instance of the
    /// service that redirects.
    pub fn service(&self) -> Option<&ServiceId> {
        self.service
    }

    /// The URLs that were called so far, in order, that of the caller first.
    pub fn previous(&self) -> &[Url] {
        self.previous
    }
}

/// What is to be done with a [`Redirect`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectAction {
    /// It is followed.
    Follow,
    /// It is not: the caller gets the response that redirects.
    Stop,
    /// The call ends with an [`Error`](super::Error) that says so.
    Refuse(String),
}

impl RedirectAction {
    /// [`Refuse`](Self::Refuse), for this reason.
    pub fn refuse(why: impl Into<String>) -> Self {
        Self::Refuse(why.into())
    }
}

/// Why a redirect is not followed, and no response given either.
#[derive(Debug)]
pub(super) enum Fault {
    TooMany(usize),
    Circle,
    Refused(String),
    /// A scheme that nobody can call.
    Scheme,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(most) => write!(f, "it was redirected more than {most} times"),
            Self::Circle => f.write_str("it was redirected in a circle"),
            Self::Refused(why) => write!(f, "a redirect was refused ({why})"),
            Self::Scheme => {
                f.write_str("it was redirected to a scheme that is neither http nor https nor lb")
            }
        }
    }
}

/// The URLs that led to a response, in its extensions, if the call was redirected.
///
/// ```
/// use evenkeel::client::reqwest::RedirectedFrom;
///
/// # fn example(response: reqwest::Response) {
/// if let Some(from) = response.extensions().get::<RedirectedFrom>() {
///     println!("after {} redirect(s), first of {}", from.urls().len(), from.urls()[0]);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectedFrom(Arc<[Url]>);

impl RedirectedFrom {
    pub(super) fn new(urls: &[Url]) -> Self {
        Self(urls.into())
    }

    /// The URLs in order, that of the caller first, without that of the response; never empty.
    pub fn urls(&self) -> &[Url] {
        &self.0
    }
}
