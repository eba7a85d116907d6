//! A client that nobody calls follows the list as well: it lets go of the connections to instances that left.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::LoadBalancer;
use crate::balancer::WeakBalancer;

/// Who hears of new lists.
pub(super) trait Listener: Send + Sync + 'static {
    /// The balancer has a new list.
    fn changed(&self, balancer: &LoadBalancer);
}

/// The task that listens for a client; it ends with the client, and with the balancer.
#[derive(Default)]
pub(super) struct Following(Mutex<Option<JoinHandle<()>>>);

impl Following {
    /// Begins, unless it has begun. A task that went with its runtime, or with a balancer, is made anew.
    pub(super) fn begin<L: Listener>(&self, balancer: &LoadBalancer, listener: &Arc<L>) {
        let mut task = self.0.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(follow(
                balancer.changes(),
                balancer.downgrade(),
                Arc::downgrade(listener),
            )));
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut() {
            task.abort();
        }
    }
}

/// Holds neither the balancer nor the client while it waits.
async fn follow<L: Listener>(mut changes: watch::Receiver<u64>, balancer: WeakBalancer, listener: Weak<L>) {
    while changes.changed().await.is_ok() {
        let (Some(balancer), Some(listener)) = (balancer.upgrade(), listener.upgrade()) else { return };
        listener.changed(&balancer);
    }
}
