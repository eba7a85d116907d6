//! Connections that speak another protocol after their first request: websockets.

use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{Failure, Lease, Outcome};

/// How long the other side may go on after one of them has ended. The answer to a close frame takes a round trip; who is
/// still there after that does not know of the end.
const LINGER: Duration = Duration::from_secs(5);

/// The tunnels of a server, so that it can wait for them, and cut them.
#[derive(Debug)]
pub(in crate::gateway) struct Tunnels {
    running: watch::Sender<usize>,
    cut: watch::Sender<bool>,
}

/// Counted while it is there.
struct Running(Arc<Tunnels>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

impl Default for Tunnels {
    fn default() -> Self {
        Self { running: watch::Sender::new(0), cut: watch::Sender::new(false) }
    }
}

impl Tunnels {
    /// Copies bytes both ways until one side ends; the lease ends with it.
    pub(super) fn run(self: &Arc<Self>, client: OnUpgrade, instance: OnUpgrade, lease: Lease) {
        self.running.send_modify(|running| *running += 1);
        let running = Running(Arc::clone(self));
        let mut cut = self.cut.subscribe();
        tokio::spawn(async move {
            let _running = running;
            let carried = async {
                match (client.await, instance.await) {
                    (Ok(client), Ok(instance)) => {
                        carry(client, instance).await;
                        Outcome::Success
                    }
                    (_, Err(_)) => Outcome::Failure(Failure::Reset),
                    (Err(_), _) => Outcome::Cancelled,
                }
            };
            let outcome = tokio::select! {
                outcome = carried => outcome,
                _ = cut.wait_for(|cut| *cut) => Outcome::Cancelled,
            };
            lease.complete(outcome);
        });
    }

    /// How many there are.
    pub(in crate::gateway) fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until there is none.
    pub(in crate::gateway) async fn ended(&self) {
        // It cannot fail: the sender is here.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Ends all of them.
    pub(in crate::gateway) fn cut(&self) {
        self.cut.send_replace(true);
    }
}

async fn carry(client: Upgraded, instance: Upgraded) {
    let (from_client, to_client) = split(TokioIo::new(client));
    let (from_instance, to_instance) = split(TokioIo::new(instance));
    let up = pump(from_client, to_instance);
    let down = pump(from_instance, to_client);
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => drop(timeout(LINGER, down).await),
        () = &mut down => drop(timeout(LINGER, up).await),
    }
}

/// Copies until there is no more, and says so to the other side.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    // However it ends: there is nobody to tell but the other side.
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
