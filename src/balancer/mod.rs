//! Balancers: [`LoadBalancer`] for one service, [`LoadBalancers`] for many.

mod all;
mod board;
mod builder;
mod calls;
mod choosing;
mod error;
mod fitness;
mod list;
mod load_balancer;
mod many;
mod measured;
mod pre_connection;
mod published;
mod recount;
mod snapshot;
mod spread;
mod tree;
mod view;
mod why;

pub use builder::LoadBalancerBuilder;
pub(crate) use calls::CallSettings;
pub use choosing::Choosing;
pub use error::{ChooseError, ChooseErrorKind};
pub use load_balancer::LoadBalancer;
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) use load_balancer::Owner;
#[cfg(feature = "tonic014")]
pub(crate) use load_balancer::WeakBalancer;
pub use many::{LoadBalancers, LoadBalancersBuilder, NotReady, ServiceBuilder, UnknownService};
pub use pre_connection::PreConnect;
#[cfg(feature = "reqwest")]
pub(crate) use pre_connection::{ConnectError, Opener};
pub use snapshot::Snapshot;
pub use why::{OverrideError, OverrideId};

use crate::{BoxFuture, Choice, Request};

/// What gives a live instance for a request.
///
/// The common case is [`try_choose`](Self::try_choose): a plain call. [`ChooseExt::choose`] adds the wait for the first
/// list. It can be used as `dyn ReactiveLoadBalancer` at no cost.
pub trait ReactiveLoadBalancer: Send + Sync {
    /// An instance from the list at hand. Never waits.
    ///
    /// # Errors
    /// [`ChooseErrorKind::NotReady`] when there is no list that may be served; else as [`ChooseExt::choose`].
    fn try_choose(&self, request: &Request<'_>) -> Result<Choice, ChooseError>;

    /// Waits until there is a list that may be served; bounded by `choose-timeout`.
    ///
    /// # Errors
    /// Why there is none.
    fn ready(&self) -> BoxFuture<'_, Result<(), ChooseError>>;

    /// An instance from the list at hand, however old: what follows a successful [`ready`](Self::ready).
    ///
    /// # Errors
    /// As [`try_choose`](Self::try_choose).
    fn choose_at_hand(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        self.try_choose(request)
    }

    /// Whether a look-up waits for the thread of the caller; then `choose` lets it run a step first.
    #[doc(hidden)]
    fn wants_a_yield(&self) -> bool {
        false
    }
}

/// [`choose`](Self::choose) for every balancer, `dyn` ones included.
pub trait ChooseExt: ReactiveLoadBalancer {
    /// An instance for `request`, waiting for the list only if none may be served.
    ///
    /// # Errors
    /// [`ChooseErrorKind`]: nothing to choose, no answer from the source, no answer in time, closed, no runtime.
    #[inline]
    fn choose<'a>(&'a self, request: &'a Request<'a>) -> Choosing<'a, Self> {
        Choosing::new(self, request)
    }
}

impl<L: ReactiveLoadBalancer + ?Sized> ChooseExt for L {}
