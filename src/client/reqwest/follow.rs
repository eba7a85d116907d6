//! Redirects: where they lead, and what goes along.
//!
//! They are not left to reqwest, which would look up the name of a service as that of a host.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;

use ::reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderValue,
    LOCATION, PROXY_AUTHORIZATION, REFERER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use ::reqwest::{Method, Response, StatusCode, Url};

use super::call::{Answer, To};
use super::client::Client;
use super::error::Error;
use super::options::CallOptions;
use super::redirect::{Fault, Redirect, RedirectedFrom};
use super::replay::{Ends, Replay};
use crate::future::within;
use crate::{InstanceState, LoadBalancer};

/// A call from its first request to the response that redirects no more.
pub(super) async fn run(
    client: &Client,
    replay: &mut Replay,
    options: &CallOptions,
) -> Result<Response, Error> {
    let mut to = client.route(replay.request.url())?;
    let ends = Ends::new(replay.request.timeout().copied());
    let mut trail = Trail::default();
    let mut options = Cow::Borrowed(options);
    // Of a redirect, as it was written: that of an instance has its address, where the request has the name of the service.
    let mut url = None;
    loop {
        // A look-up before the first attempt at another place has no limit of its own that is shorter.
        let end = ends.end().filter(|_| !trail.urls.is_empty());
        let called = within(end, pin!(client.call(&to, replay, &ends, &options))).await;
        let answered = called.unwrap_or_else(|| Err(Error::late()));
        let answer = answered.map_err(|error| error.after(&trail.urls))?;
        let here = url.as_ref().unwrap_or(replay.request.url());
        let next = match next(client, &to, &answer, replay, (here, &mut trail)) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(finished(answer, &trail)),
            Err(fault) => {
                answer.give_up();
                return Err(Error::redirect(fault, trail.urls));
            }
        };
        answer.give_up();
        if let Some(before) = to.balancer() {
            let stays = next.to.balancer().is_some_and(|there| there.service_id() == before.service_id());
            options = Cow::Owned(if stays { options.elsewhere() } else { CallOptions::default() });
        }
        next.apply(replay, client.sends_referer());
        (to, url) = (next.to, Some(next.location));
    }
}

/// The URLs that were called so far, and by which method.
#[derive(Default)]
struct Trail {
    urls: Vec<Url>,
    methods: Vec<Method>,
    /// What stands before came with other cookies, so that it was another request.
    fresh: usize,
}

impl Trail {
    fn add(&mut self, url: &Url, method: &Method, learns_cookies: bool) {
        self.urls.push(bare(url));
        self.methods.push(method.clone());
        if learns_cookies {
            self.fresh = self.urls.len();
        }
    }

    fn is_circle(&self, url: &Url, method: &Method) -> bool {
        let urls = self.urls.iter().skip(self.fresh);
        urls.zip(self.methods.iter().skip(self.fresh)).any(|(before, by)| before == url && by == method)
    }
}

/// Without user info and fragment: what may be shown to others.
fn bare(url: &Url) -> Url {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url
}

fn finished(answer: Answer, trail: &Trail) -> Response {
    let mut response = answer.finish();
    if !trail.urls.is_empty() {
        response.extensions_mut().insert(RedirectedFrom::new(&trail.urls));
    }
    response
}

/// Where a call goes on.
struct Next {
    to: To,
    location: Url,
    /// The URL to call, with the name of the service if it is one.
    url: Url,
    method: Method,
    keeps_body: bool,
    /// Whether it is the party that the request was meant for.
    trusted: bool,
    referer: Option<HeaderValue>,
}

/// What follows on a response; `None`: the caller gets it.
fn next(
    client: &Client,
    from: &To,
    answer: &Answer,
    replay: &Replay,
    (here, trail): (&Url, &mut Trail),
) -> Result<Option<Next>, Fault> {
    let response = answer.response();
    let before = replay.request.method();
    let Some((method, keeps_body)) = changed(response.status(), before) else { return Ok(None) };
    if client.redirects().follows_none() || keeps_body && !replay.is_repeatable() {
        return Ok(None);
    }
    let base = replay.request.url();
    let Some((location, relative)) = location(response.headers(), base) else { return Ok(None) };
    let Some(Place { to, url, trusted }) = place(client, from, answer, base, &location, relative) else {
        return Ok(None);
    };
    trail.add(here, before, client.learns_cookies(response.headers()));
    let service = to.balancer().map(|balancer| balancer.service_id().clone());
    let redirect = Redirect {
        status: response.status(),
        url: &location,
        previous: &trail.urls,
        service: service.as_ref(),
    };
    let circle = trail.is_circle(&bare(&location), &method);
    if !client.redirects().decide(&redirect, circle)? {
        // It was not left.
        trail.urls.pop();
        return Ok(None);
    }
    if matches!(to, To::Plain) && !matches!(location.scheme(), "http" | "https") {
        return Err(Fault::Scheme);
    }
    let unsafe_now = !trusted && plainly(location.scheme()) == "http";
    let referer = referer(from, base, response.url(), unsafe_now);
    Ok(Some(Next { to, location, url, method, keeps_body, trusted, referer }))
}

/// The method for the next request and whether it has the body, by the status of a redirect: as RFC 9110 (15.4) allows and
/// everybody does.
fn changed(status: StatusCode, method: &Method) -> Option<(Method, bool)> {
    Some(match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if *method == Method::POST => (Method::GET, false),
        StatusCode::SEE_OTHER if *method == Method::HEAD => (Method::HEAD, false),
        StatusCode::SEE_OTHER => (Method::GET, false),
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => (method.clone(), true),
        _ => return None,
    })
}

/// The header `Location`, resolved against the URL that was called, and whether it only said where on the same host; `None`
/// if it is none.
fn location(headers: &HeaderMap, base: &Url) -> Option<(Url, bool)> {
    let text = std::str::from_utf8(headers.get(LOCATION)?.as_bytes()).ok()?;
    let url = base.join(text).ok()?;
    let same = (url.scheme(), url.host_str(), url.port()) == (base.scheme(), base.host_str(), base.port());
    let relative = same && Url::parse(text).is_err();
    // Nobody can call what has no host; but what is no URL of a host may be refused by name.
    let callable = url.host_str().is_some_and(|host| !host.is_empty()) || url.scheme() != base.scheme();
    callable.then_some((url, relative))
}

struct Place {
    to: To,
    url: Url,
    trusted: bool,
}

/// Where a location is; `None` if it names a service that cannot be called.
///
/// Credentials go along to the same service or the same origin, by the same scheme.
fn place(
    client: &Client,
    from: &To,
    answer: &Answer,
    base: &Url,
    location: &Url,
    relative: bool,
) -> Option<Place> {
    let called = answer.response().url();
    let same_scheme =
        plainly(location.scheme()) == plainly(base.scheme()) || location.scheme() == called.scheme();
    let Some(balancer) = from.balancer() else {
        let to = client.route(location).ok()?;
        let trusted = to.balancer().is_none()
            && location.scheme() == called.scheme()
            && same_authority(called, location);
        return Some(Place { to, url: location.clone(), trusted });
    };
    if !relative && let Some(place) = instance(balancer, answer, base, location) {
        return Some(place);
    }
    // Its own name, though perhaps nobody configured it.
    let host = location.host_str().unwrap_or_default();
    let own = location.port().is_none()
        && balancer.service_id().as_str().eq_ignore_ascii_case(host)
        && matches!(location.scheme(), "http" | "https" | "lb");
    let to = if relative || own { To::Service(balancer.clone()) } else { client.route(location).ok()? };
    let stays = to.balancer().is_some_and(|there| there.service_id() == balancer.service_id());
    Some(Place { to, url: location.clone(), trusted: stays && same_scheme })
}

/// `lb` means `http`.
fn plainly(scheme: &str) -> &str {
    if scheme == "lb" { "http" } else { scheme }
}

fn same_authority(one: &Url, other: &Url) -> bool {
    one.host_str() == other.host_str() && one.port_or_known_default() == other.port_or_known_default()
}

/// The instance of the service whose address a location is: the one that answered, or another one of its list.
fn instance(balancer: &LoadBalancer, answer: &Answer, base: &Url, location: &Url) -> Option<Place> {
    if !matches!(location.scheme(), "http" | "https") {
        return None;
    }
    let called = answer.response().url();
    let is_there = |state: &&Arc<InstanceState>| {
        let address = format!("{}://{}/", location.scheme(), state.instance().authority());
        Url::parse(&address).is_ok_and(|address| same_authority(&address, location))
    };
    let list = balancer.snapshot()?;
    // The one that answered may have been called by another name than its host.
    let state = match answer.state().filter(|_| same_authority(called, location)) {
        Some(state) => Arc::clone(state),
        None => Arc::clone(list.members().map(|(state, _)| state).find(is_there)?),
    };
    // What is relative to this place is relative to the service.
    let mut url = base.clone();
    url.set_path(location.path());
    url.set_query(location.query());
    url.set_fragment(None);
    let to = To::Instance { balancer: balancer.clone(), state, scheme: location.scheme().to_owned() };
    Some(Place { to, url, trusted: location.scheme() == called.scheme() })
}

/// What reqwest sends: the URL before, unless the way there was safe and the next one is not. That of a service has its
/// name, and the scheme by which its instance was called.
fn referer(from: &To, base: &Url, called: &Url, unsafe_now: bool) -> Option<HeaderValue> {
    if called.scheme() == "https" && unsafe_now {
        return None;
    }
    let shown = match from {
        To::Plain => bare(called),
        _ => bare(base),
    };
    let text = match shown.as_str().strip_prefix("lb:") {
        Some(rest) => format!("{}:{rest}", called.scheme()),
        None => shown.into(),
    };
    HeaderValue::try_from(text).ok()
}

impl Next {
    /// Makes the next request out of the one before.
    fn apply(&self, replay: &mut Replay, with_referer: bool) {
        let request = &mut replay.request;
        *request.url_mut() = self.url.clone();
        *request.method_mut() = self.method.clone();
        let headers = request.headers_mut();
        if !self.keeps_body {
            for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
                headers.remove(name);
            }
        }
        if !self.trusted {
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE, HOST] {
                headers.remove(name);
            }
            headers.remove("cookie2");
        }
        if with_referer {
            match &self.referer {
                Some(referer) => drop(headers.insert(REFERER, referer.clone())),
                None => drop(headers.remove(REFERER)),
            }
        }
        if !self.keeps_body {
            replay.drop_body();
        }
    }
}
