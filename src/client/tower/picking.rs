//! The choice of an instance without a wait, or what is to be waited for.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::request::Propagated;
use crate::{BoxFuture, Choice, ChooseError, LoadBalancer, ReactiveLoadBalancer, Request};

pub(super) enum Picking {
    Picked(Choice),
    Wait(Wait),
    Failed(ChooseError),
}

/// What is to be waited for before an instance can be chosen. Only this is boxed.
pub(super) struct Wait {
    future: BoxFuture<'static, Result<(), ChooseError>>,
    /// A list is at hand then, and may be taken however old it is; else it is to be asked for again.
    at_hand: bool,
}

/// An instance from the list at hand.
#[inline]
pub(super) fn pick(balancer: &LoadBalancer, request: &Request<'_>) -> Picking {
    if balancer.wants_a_yield() {
        // A look-up shares its only thread with this caller: let it run a step.
        let future = Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        });
        return Picking::Wait(Wait { future, at_hand: false });
    }
    pick_now(balancer, request)
}

/// The request with what is handed on to it, which counts before an instance is chosen.
#[inline]
pub(super) fn handed_on<T>(request: &Request<'_>, choose: impl FnOnce(&Request<'_>) -> T) -> T {
    let propagated = Propagated::current();
    if propagated.is_empty() {
        return choose(request);
    }
    let over = propagated.over(*request);
    choose(&request.with_view(&over))
}

#[inline]
fn pick_now(balancer: &LoadBalancer, request: &Request<'_>) -> Picking {
    match handed_on(request, |request| balancer.try_choose(request)) {
        Ok(choice) => Picking::Picked(choice),
        Err(error) if error.is_not_ready() => Picking::Wait(Wait::for_a_list(balancer)),
        Err(error) => Picking::Failed(error),
    }
}

impl Wait {
    #[cold]
    fn for_a_list(balancer: &LoadBalancer) -> Self {
        let balancer = balancer.clone();
        let future = Box::pin(async move { ReactiveLoadBalancer::ready(&balancer).await });
        Self { future, at_hand: true }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ChooseError>> {
        Pin::as_mut(&mut self.future).poll(cx)
    }

    /// An instance, after the wait.
    pub(super) fn resume(&self, balancer: &LoadBalancer, request: &Request<'_>) -> Picking {
        if !self.at_hand {
            return pick_now(balancer, request);
        }
        match handed_on(request, |request| balancer.choose_at_hand(request)) {
            Ok(choice) => Picking::Picked(choice),
            Err(error) => Picking::Failed(error),
        }
    }
}
