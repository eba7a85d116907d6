use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tower::discover::Change;
use futures_core::Stream;

use super::BoxError;
use crate::{BoxFuture, LoadBalancer, ServiceInstance};

type Make<S> = dyn FnMut(&ServiceInstance) -> Result<S, BoxError> + Send;

/// The membership of a service as tower has it: a stream of [`Change`]s, which is a
/// [`Discover`](::tower::discover::Discover). Made by [`LoadBalancer::discover`].
///
/// It is state, not events: what is told is the difference between what was told and the list as it is, so that a reader who
/// is slow misses what came and went meanwhile, and nothing piles up.
pub struct Membership<S> {
    balancer: LoadBalancer,
    make: Box<Make<S>>,
    /// What was told.
    told: HashSet<u64>,
    /// Ends when the list may differ.
    change: Option<BoxFuture<'static, bool>>,
}

impl LoadBalancer {
    /// The membership of the service for a balancer or a pool of tower's, which then picks by its own rules: stages that go
    /// by the list hold (zones, health, subsets), those that go by the request, policies, leases and retries do
    /// not.
    ///
    /// The keys mean one instance each, and no other one ever. An error of `make` is an error of the stream, at which tower's
    /// balancer gives up: give a service that connects when it is called.
    ///
    /// ```
    /// use evenkeel::{LoadBalancer, ServiceInstance};
    /// use tower::balance::p2c::Balance;
    /// use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
    /// use tower::{ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let mirrors = LoadBalancer::fixed("mirrors", [ServiceInstance::new("10.0.0.1", 7000)?])?;
    /// let members = mirrors.discover(|instance| {
    ///     let address = instance.authority();
    ///     Ok::<_, std::io::Error>(service_fn(move |question: u32| {
    ///         let answer = format!("{question} asked of {address}");
    ///         async move { Ok::<_, std::io::Error>(answer) }
    ///     }))
    /// });
    /// let service = Balance::new(PendingRequestsDiscover::new(members, CompleteOnResponse::default()));
    /// assert_eq!(service.oneshot(42).await?, "42 asked of 10.0.0.1:7000");
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn discover<S, E>(
        &self,
        mut make: impl FnMut(&ServiceInstance) -> Result<S, E> + Send + 'static,
    ) -> Membership<S>
    where
        E: Into<BoxError>,
    {
        Membership {
            balancer: self.clone(),
            make: Box::new(move |instance| make(instance).map_err(Into::into)),
            told: HashSet::new(),
            change: None,
        }
    }
}

impl<S> Membership<S> {
    /// One difference between what was told and the list, if there is one. Those who left go first.
    fn difference(&mut self) -> Option<Result<Change<u64, S>, BoxError>> {
        let list = self.balancer.snapshot()?;
        let listed: HashSet<u64> = list.instances().map(|state| state.uid()).collect();
        let gone = self.told.iter().find(|uid| !listed.contains(uid)).copied();
        if let Some(uid) = gone {
            self.told.remove(&uid);
            return Some(Ok(Change::Remove(uid)));
        }
        let new = list.instances().find(|state| !self.told.contains(&state.uid()))?;
        self.told.insert(new.uid());
        Some((self.make)(&new.instance()).map(|service| Change::Insert(new.uid(), service)))
    }
}

impl<S> Stream for Membership<S> {
    type Item = Result<Change<u64, S>, BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(change) = &mut this.change {
                match change.as_mut().poll(cx) {
                    Poll::Ready(true) => this.change = None,
                    // Closed: what is listed stays.
                    Poll::Ready(false) => return Poll::Ready(None),
                    Poll::Pending => return Poll::Pending,
                }
            }
            // Before the list is looked at, so that no change falls in between.
            let change = this.balancer.followed();
            if let Some(difference) = this.difference() {
                return Poll::Ready(Some(difference));
            }
            this.change = Some(change);
        }
    }
}

impl<S> fmt::Debug for Membership<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("service", self.balancer.service_id())
            .field("told", &self.told.len())
            .finish_non_exhaustive()
    }
}
