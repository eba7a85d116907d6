use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{ChooseError, ReactiveLoadBalancer};
use crate::{BoxFuture, Choice, Request};

/// The future of [`ChooseExt::choose`](super::ChooseExt::choose): ready at once when a list is at hand; only a wait
/// allocates.
#[must_use = "futures do nothing unless polled"]
pub struct Choosing<'a, L: ?Sized> {
    balancer: &'a L,
    request: &'a Request<'a>,
    wait: Option<BoxFuture<'a, Result<(), ChooseError>>>,
    yielded: bool,
}

impl<'a, L: ReactiveLoadBalancer + ?Sized> Choosing<'a, L> {
    #[inline]
    pub(super) fn new(balancer: &'a L, request: &'a Request<'a>) -> Self {
        Self { balancer, request, wait: None, yielded: false }
    }
}

impl<L: ReactiveLoadBalancer + ?Sized> Future for Choosing<'_, L> {
    type Output = Result<Choice, ChooseError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.wait.is_none() {
            if !self.yielded && self.balancer.wants_a_yield() {
                // A look-up shares its only thread with this caller: let it run a step.
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.balancer.try_choose(self.request) {
                Err(error) if error.is_not_ready() => self.wait = Some(self.balancer.ready()),
                done => return Poll::Ready(done),
            }
        }
        self.poll_wait(cx)
    }
}

impl<L: ReactiveLoadBalancer + ?Sized> Choosing<'_, L> {
    #[cold]
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Choice, ChooseError>> {
        let Some(wait) = &mut self.wait else { return Poll::Pending };
        match wait.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(ready) => {
                self.wait = None;
                self.yielded = true;
                Poll::Ready(ready.and_then(|()| self.balancer.choose_at_hand(self.request)))
            }
        }
    }
}

impl<L: ?Sized> fmt::Debug for Choosing<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choosing")
            .field("request", self.request)
            .field("waits", &self.wait.is_some())
            .finish()
    }
}
