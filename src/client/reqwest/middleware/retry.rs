use ::reqwest::header::HeaderMap;
use ::reqwest::{Request, Response};
use async_trait::async_trait;
use http::Extensions;
use reqwest_middleware::{Middleware, Next, Result};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::balance::Chosen;
use super::balancer_of;
use super::error::Error;
use crate::call::{Protocol, call_with};
use crate::choice::outcome_of;
use crate::client::Via;
use crate::client::reqwest::error::failure_of;
use crate::client::reqwest::lease;
use crate::client::reqwest::options::{CallOptions, View};
use crate::client::reqwest::replay::{Ends, Replay};
use crate::{Choice, HttpView, LoadBalancers, Outcome};

/// Repeats a request that names a service as the retry properties of the service allow, each time on an instance that it has
/// chosen; [`Balance`](super::Balance) has to stand inside of it. See the [module](super), and
/// [`call`](crate::call::call()) for what is repeated.
///
/// The `timeout` of the request holds for all attempts together.
#[derive(Clone, Debug)]
pub struct Retry {
    balancers: LoadBalancers,
}

impl Retry {
    /// Over these balancers.
    pub fn new(balancers: &LoadBalancers) -> Self {
        Self { balancers: balancers.clone() }
    }
}

#[async_trait]
impl Middleware for Retry {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(balancer) = balancer_of(&self.balancers, &request)? else {
            return next.run(request, extensions).await;
        };
        let options = extensions.get::<CallOptions>().cloned().unwrap_or_default();
        let ends = Ends::new(request.timeout().copied());
        let replay = Replay::new(request, None, false);
        let original = &replay.request;
        let http = HttpView::with_text(original.method(), original.url().as_str(), original.headers());
        let view = View { http, options: &options };
        // Attempts come one after the other, so that nobody ever waits for it.
        let extensions = Mutex::new(extensions);
        let send = |choice: &Choice, _: u32| {
            let request = ends.within(replay.next()?)?;
            let (state, next, extensions) = (Arc::clone(choice.shared_state()), next.clone(), &extensions);
            Some(async move {
                let mut extensions = extensions.lock().await;
                extensions.insert(Chosen(state));
                next.run(request, &mut extensions).await
            })
        };
        let answered =
            call_with(&balancer, &view.request(), &Http(&ends), send).await.map_err(Error::call)?;
        let via = Via::new(answered.instance, answered.attempts);
        Ok(lease::hold(answered.response, answered.lease, Some(via)))
    }
}

/// What an attempt says of its instance.
pub(super) fn outcome(result: std::result::Result<&Response, &reqwest_middleware::Error>) -> Outcome {
    match result {
        Ok(response) => outcome_of(response.status(), response.headers()),
        Err(reqwest_middleware::Error::Reqwest(error)) if !error.is_builder() => {
            Outcome::Failure(failure_of(error))
        }
        // A middleware did not let it through: the instance has no part in it.
        Err(_) => Outcome::Cancelled,
    }
}

struct Http<'a>(&'a Ends);

impl Protocol<Response, reqwest_middleware::Error> for Http<'_> {
    fn outcome(&self, result: std::result::Result<&Response, &reqwest_middleware::Error>) -> Outcome {
        outcome(result)
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.end()
    }

    fn headers(&self, response: &Response) -> HeaderMap {
        response.headers().clone()
    }
}
