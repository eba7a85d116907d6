//! A request that is sent several times, as far as its body allows.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use ::reqwest::{Body, Request, Url};
use tokio::time::Instant;

use crate::client::returning::Home;

/// Makes the body anew for each attempt.
pub(super) type MakeBody = Arc<dyn Fn() -> Body + Send + Sync>;

/// A request, and where the bodies of its attempts come from.
pub(super) struct Replay {
    /// As the caller made it. Its body is here only if it is in memory, so that it can be cloned at no cost.
    pub(super) request: Request,
    pub(super) body: Source,
    /// It has no extensions.
    own: bool,
}

pub(super) enum Source {
    /// In the request, if it has one.
    Kept,
    Made(MakeBody),
    /// A stream: once somebody read of it, it is gone.
    Stream(Home<Body>),
}

impl Replay {
    /// `own` says that the request has no extensions; of one that came from elsewhere nobody can tell.
    pub(super) fn new(mut request: Request, make: Option<MakeBody>, own: bool) -> Self {
        let stream = request.body().is_some_and(|body| body.as_bytes().is_none());
        let body = match make {
            Some(make) => {
                *request.body_mut() = None;
                Source::Made(make)
            }
            None => request
                .body_mut()
                .take_if(|_| stream)
                .map_or(Source::Kept, |body| Source::Stream(Home::new(body, 0))),
        };
        Self { request, body, own }
    }

    /// Whether it can be sent again though its body was read.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self.body, Source::Stream(_))
    }

    /// From now on it has no body.
    pub(super) fn drop_body(&mut self) {
        *self.request.body_mut() = None;
        self.body = Source::Kept;
    }

    /// The request once more. reqwest's own copy makes room for extensions and for a time limit, which most requests have not; that
    /// this one has all that the builder can set is a test.
    fn copy_to(&self, url: Option<Url>) -> Option<Request> {
        let request = &self.request;
        if !self.own || request.body().is_some() {
            let mut copy = request.try_clone()?;
            if let Some(url) = url {
                *copy.url_mut() = url;
            }
            return Some(copy);
        }
        let url = url.unwrap_or_else(|| request.url().clone());
        let mut copy = Request::new(request.method().clone(), url);
        *copy.headers_mut() = request.headers().clone();
        *copy.version_mut() = request.version();
        if let Some(limit) = request.timeout() {
            *copy.timeout_mut() = Some(*limit);
        }
        Some(copy)
    }

    /// The request for the next attempt; `None` if its body is gone.
    pub(super) fn next(&self) -> Option<Request> {
        self.next_to(None)
    }

    /// The same to another URL, if there is one.
    pub(super) fn next_to(&self, url: Option<Url>) -> Option<Request> {
        let mut next = self.copy_to(url)?;
        match &self.body {
            Source::Kept => {}
            Source::Made(make) => *next.body_mut() = Some(make()),
            Source::Stream(home) => *next.body_mut() = Some(Body::wrap(home.take()?)),
        }
        Some(next)
    }
}

/// When the time of a call is up: its limit counts from the first attempt on, since the wait for a list has its own.
pub(super) struct Ends {
    limit: Option<Duration>,
    end: OnceLock<Option<Instant>>,
}

impl Ends {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, end: OnceLock::new() }
    }

    /// The end, once the first attempt has begun.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end.get().copied().flatten()
    }

    /// The request with what is left for it; `None` if nothing is. The first one starts the clock.
    pub(super) fn within(&self, mut request: Request) -> Option<Request> {
        let Some(end) = self.end.get() else {
            let end = self.limit.and_then(|limit| Instant::now().checked_add(limit));
            self.end.get_or_init(|| end);
            return Some(request);
        };
        if let (Some(limit), Some(end)) = (request.timeout_mut(), end) {
            let left = end.saturating_duration_since(Instant::now());
            *limit = Some(left).filter(|left| !left.is_zero())?;
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use ::reqwest::header::HeaderValue;
    use ::reqwest::{Method, Version};

    use super::*;

    #[test]
    fn an_attempt_is_sent_what_the_caller_made() {
        for (limit, body) in
            [(None, None), (Some(Duration::from_secs(3)), Some("text")), (Some(Duration::MAX), None)]
        {
            let mut request = Request::new(Method::PUT, Url::parse("lb://orders/a?b#c").unwrap());
            request.headers_mut().append("x-a", HeaderValue::from_static("1"));
            request.headers_mut().append("x-a", HeaderValue::from_static("2"));
            *request.version_mut() = Version::HTTP_2;
            if limit.is_some() {
                *request.timeout_mut() = limit;
            }
            *request.body_mut() = body.map(Body::from);
            let same = |copy: &Request| {
                assert_eq!((copy.method(), copy.url().as_str()), (&Method::PUT, "lb://orders/a?b#c"));
                assert!(copy.headers().get_all("x-a").iter().eq(["1", "2"]) && copy.headers().len() == 2);
                assert_eq!((copy.version(), copy.timeout().copied()), (Version::HTTP_2, limit));
                assert_eq!(copy.body().and_then(Body::as_bytes), body.map(str::as_bytes));
            };
            for own in [true, false] {
                let replay = Replay::new(request.try_clone().unwrap(), None, own);
                let next = replay.next().unwrap();
                same(&next);
                assert_eq!(format!("{next:?}"), format!("{:?}", request.try_clone().unwrap()));
                same(&replay.next().unwrap());
                let there = replay.next_to(Some(Url::parse("http://10.0.0.1/b").unwrap())).unwrap();
                assert_eq!((there.url().as_str(), there.headers().len()), ("http://10.0.0.1/b", 2));
            }
        }
    }

    #[test]
    fn extensions_of_a_request_from_elsewhere_go_along() {
        let request = http::Request::get("http://orders/").extension(7_u8).body(Body::default()).unwrap();
        let replay = Replay::new(Request::try_from(request).unwrap(), None, false);
        for _ in 0..2 {
            let next = http::Request::<Body>::try_from(replay.next().unwrap()).unwrap();
            assert_eq!(next.extensions().get::<u8>(), Some(&7));
        }
    }
}
