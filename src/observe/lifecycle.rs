use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{AttemptEnd, AttemptStart, CallStart, Completion};
use crate::ServiceId;
use crate::limit::Limit;

/// Hears of the life of calls: Spring's `LoadBalancerLifecycle`.
///
/// A call has one [`on_start`](Self::on_start), then for each attempt one [`on_start_request`](Self::on_start_request) and one
/// [`on_attempt`](Self::on_attempt), and one [`on_complete`](Self::on_complete), whatever happens: an error, no instance, a
/// caller who gives up, a panic. The calls are those of the clients, [`call`](crate::call::call) and
/// [`LoadBalancerClient`](crate::client::LoadBalancerClient); a lease that was chosen by hand has `on_attempt` only.
///
/// Several run by their [`order`](Self::order), lowest first, those of one order as they were added. A method that panics is
/// logged; the call and the other processors do not notice. They run on the caller's thread, so they must be short and must
/// not block.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use evenkeel::observe::{Completion, Lifecycle};
///
/// /// Counts what the service could not serve.
/// #[derive(Debug, Default)]
/// struct Discarded(AtomicU32);
///
/// impl Lifecycle for Discarded {
///     fn on_complete(&self, call: &Completion<'_>) {
///         if call.instance.is_none() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Lifecycle: Send + Sync + fmt::Debug + 'static {
    /// Where it stands among several; lowest first (default 0).
    fn order(&self) -> i32 {
        0
    }

    /// Whether it wants to hear of this service (default: of every one). Asked when a balancer is made or changed.
    fn supports(&self, service: &ServiceId) -> bool {
        let _ = service;
        true
    }

    /// A call begins; nothing is chosen yet.
    fn on_start(&self, call: &CallStart<'_>) {
        let _ = call;
    }

    /// An instance is chosen, and the request is about to be sent to it.
    fn on_start_request(&self, attempt: &AttemptStart<'_>) {
        let _ = attempt;
    }

    /// An attempt ended; for the last one of a call that is the end of the response's body.
    fn on_attempt(&self, attempt: &AttemptEnd<'_>) {
        let _ = attempt;
    }

    /// The call ended.
    fn on_complete(&self, call: &Completion<'_>) {
        let _ = call;
    }
}

/// The processors of one service, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifecycles {
    all: Arc<[Arc<dyn Lifecycle>]>,
    panicked: Arc<Panicked>,
}

/// One that panics does so at every call.
#[derive(Debug)]
struct Panicked(Limit);

impl Default for Panicked {
    fn default() -> Self {
        Self(Limit::faults())
    }
}

impl Panicked {
    fn tell(&self, service: &ServiceId, lifecycle: &dyn Lifecycle, method: &'static str) {
        if let Some(passed) = self.0.pass() {
            let suppressed = passed.suppressed();
            tracing::error!(%service, ?lifecycle, method, suppressed, "a lifecycle processor panicked");
        }
    }
}

impl Lifecycles {
    /// Those of `all` that want to hear of `service`.
    pub(crate) fn of(service: &ServiceId, all: &[Arc<dyn Lifecycle>]) -> Self {
        let panicked = Arc::new(Panicked::default());
        let supports = |one: &&Arc<dyn Lifecycle>| {
            catch_unwind(AssertUnwindSafe(|| one.supports(service))).unwrap_or_else(|_| {
                panicked.tell(service, &***one, "supports");
                false
            })
        };
        let order = |one: &Arc<dyn Lifecycle>| {
            catch_unwind(AssertUnwindSafe(|| one.order())).unwrap_or_else(|_| {
                panicked.tell(service, &**one, "order");
                0
            })
        };
        let mut wanted: Vec<_> = all.iter().filter(supports).cloned().collect();
        wanted.sort_by_cached_key(order);
        Self { all: wanted.into(), panicked }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Tells each of them. Events end calls wherever a lease is dropped, also while its caller panics, so that a second
    /// panic would end the process.
    pub(crate) fn tell(&self, service: &ServiceId, event: &'static str, tell: impl Fn(&dyn Lifecycle)) {
        for one in &*self.all {
            if catch_unwind(AssertUnwindSafe(|| tell(&**one))).is_err() {
                self.panicked.tell(service, &**one, event);
            }
        }
    }
}
