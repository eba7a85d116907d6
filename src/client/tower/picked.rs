use std::fmt;
use std::sync::Arc;

use crate::{Choice, InstanceState, LoadBalancer, ServiceInstance};

/// The instance to which an attempt goes, in the extensions of its request: put there by [`Retry`](super::Retry), for a
/// [`Balance`](super::Balance) below it, which then chooses none by itself, or for a service of your own.
#[derive(Clone)]
pub struct Picked {
    pub(super) state: Arc<InstanceState>,
    pub(super) balancer: LoadBalancer,
}

impl Picked {
    pub(super) fn of(balancer: &LoadBalancer, choice: &Choice) -> Self {
        Self { state: Arc::clone(choice.shared_state()), balancer: balancer.clone() }
    }

    /// The instance.
    pub fn instance(&self) -> ServiceInstance {
        self.state.instance()
    }
}

impl fmt::Debug for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Picked").field(&self.instance().to_string()).finish()
    }
}
