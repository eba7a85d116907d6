//! A request that is sent several times, as far as its body allows.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use ::reqwest::{Body, Request};
use tokio::time::Instant;

use crate::client::returning::Home;

/// Makes the body anew for each attempt.
pub(super) type MakeBody = Arc<dyn Fn() -> Body + Send + Sync>;

/// A request, and where the bodies of its attempts come from.
pub(super) struct Replay {
    /// As the caller made it. Its body is here only if it is in memory, so that it can be cloned at no cost.
    pub(super) request: Request,
    pub(super) body: Source,
}

pub(super) enum Source {
    /// In the request, if it has one.
    Kept,
    Made(MakeBody),
    /// A stream: once somebody read of it, it is gone.
    Stream(Home<Body>),
}

impl Replay {
    pub(super) fn new(mut request: Request, make: Option<MakeBody>) -> Self {
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
        Self { request, body }
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

    /// The request for the next attempt; `None` if its body is gone.
    pub(super) fn next(&self) -> Option<Request> {
        let mut next = self.request.try_clone()?;
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
