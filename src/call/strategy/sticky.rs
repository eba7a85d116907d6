use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Choice, LoadBalancer, Request};

/// Keeps calls on the instance that answered the last one: Dubbo's `sticky`.
///
/// Hand it to a strategy by `with_sticky`. The first attempt of a call goes to the instance that answered last, as long as
/// `request` may get it and it is in use; else, and after an attempt that failed, the policy chooses, and the calls stay with
/// whoever answers then. An error that is the call's own (see [`Strategy`](super::Strategy)) is an answer too.
///
/// Clones share the instance: one for all calls keeps them together, one for each method keeps those of a method together. Over
/// two balancers it remembers only the one that was used last.
///
/// ```
/// use evenkeel::call::{Failover, Sticky, Strategy};
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let strategy = Failover::default().with_sticky(Sticky::default());
/// let send = |_: &Choice, _| Some(async { Ok::<_, std::io::Error>(()) });
/// let first = strategy.run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?.instance;
/// for _ in 0..10 {
///     let answer = strategy.run(&orders, &Request::EMPTY, |_| Outcome::Success, send).await?;
///     assert_eq!(answer.instance, first);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Sticky(Arc<Mutex<Option<(u64, u64)>>>);

impl Sticky {
    /// With no instance yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the instance: the policy chooses for the next call.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }

    /// A lease on the instance that answered last, if `request` may get it and it is in use.
    pub(super) fn kept(&self, balancer: &LoadBalancer, request: &Request<'_>) -> Option<Choice> {
        let uid = self.0.lock().as_ref().filter(|(number, _)| *number == balancer.number())?.1;
        balancer.usable(request, uid)
    }

    /// This instance answered.
    pub(super) fn keep(&self, balancer: &LoadBalancer, uid: u64) {
        *self.0.lock() = Some((balancer.number(), uid));
    }
}

impl fmt::Debug for Sticky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock().as_ref().map(|(_, uid)| *uid);
        f.debug_tuple("Sticky").field(&kept).finish()
    }
}
