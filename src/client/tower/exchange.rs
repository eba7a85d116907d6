//! What a service of one's own exchanges, and when a call of it is over.

use std::error::Error;

use super::error::outcome_of_error;
use crate::request::Propagated;
use crate::{Choice, HttpView, Outcome, Request, Track};

/// How calls of a [`PerInstance`](super::PerInstance) are seen and judged.
pub trait Exchange<Q, R> {
    /// What the caller gets.
    type Output;

    /// Puts what is handed on to the calls that are made now into the request, before an instance is chosen (default: it
    /// has no place for it; the choice goes by it in any case).
    fn hand_on(&self, request: &mut Q, propagated: &Propagated) {
        let _ = (request, propagated);
    }

    /// Asks for an instance with what the balancer may see of the request.
    fn ask<T>(&self, request: &Q, ask: impl FnOnce(&Request<'_>) -> T) -> T;

    /// The call was answered: ends its lease, now or later.
    fn answered(&self, response: R, choice: Choice) -> Self::Output;

    /// What an error says of the instance.
    fn failed(&self, error: &(dyn Error + 'static)) -> Outcome {
        outcome_of_error(error)
    }
}

/// Any request; a call is over with its response, which is a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyExchange;

impl<Q, R> Exchange<Q, R> for AnyExchange {
    type Output = R;

    fn ask<T>(&self, _: &Q, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        ask(&Request::EMPTY)
    }

    fn answered(&self, response: R, choice: Choice) -> R {
        choice.complete(Outcome::Success);
        response
    }
}

/// Any request; a call is over with its response or error, which a closure judges.
#[derive(Clone, Copy, Debug)]
pub struct JudgedExchange<J>(pub(super) J);

impl<Q, R, J> Exchange<Q, R> for JudgedExchange<J>
where
    J: Fn(Result<&R, &(dyn Error + 'static)>) -> Outcome,
{
    type Output = R;

    fn ask<T>(&self, _: &Q, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        ask(&Request::EMPTY)
    }

    fn answered(&self, response: R, choice: Choice) -> R {
        choice.complete((self.0)(Ok(&response)));
        response
    }

    fn failed(&self, error: &(dyn Error + 'static)) -> Outcome {
        (self.0)(Err(error))
    }
}

/// Requests of HTTP, whose headers and URIs the balancer sees; a call is over with the body of its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpExchange;

impl<B, R: Track> Exchange<http::Request<B>, R> for HttpExchange {
    type Output = R::Tracked;

    fn hand_on(&self, request: &mut http::Request<B>, propagated: &Propagated) {
        propagated.add_to(request.headers_mut());
    }

    fn ask<T>(&self, request: &http::Request<B>, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        ask(&Request::of(&HttpView::of(request)))
    }

    fn answered(&self, response: R, choice: Choice) -> R::Tracked {
        choice.track(response)
    }
}
