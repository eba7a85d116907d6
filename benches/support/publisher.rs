//! Lists that are pushed, and the time that a balancer needs to take one.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use evenkeel::discovery::{Lists, SupplyError};
use evenkeel::policy::Policy;
use evenkeel::{LoadBalancer, ServiceId, ServiceInstance, ServiceInstanceListSupplier, SupplierBuilder};
use futures_util::Stream;
use tokio::runtime::Runtime;

/// A balancer over a source that pushes.
pub struct Publisher {
    pub balancer: LoadBalancer,
    feed: Arc<Mutex<Feed>>,
    times: Receiver<Duration>,
}

impl Publisher {
    /// `stages` are added to a chain over the source, which pushes `first` at once.
    pub fn new(
        runtime: &Runtime,
        first: Vec<ServiceInstance>,
        stages: impl FnOnce(SupplierBuilder) -> SupplierBuilder,
        policy: impl Policy,
    ) -> Self {
        let (told, times) = channel();
        let feed = Arc::new(Mutex::new(Feed { list: Some(first), given: None, waker: None, told }));
        let source =
            Source { service: super::SERVICE.parse().expect("a service id"), feed: Arc::clone(&feed) };
        let chain = stages(SupplierBuilder::new(super::SERVICE).with_base(source));
        let balancer = super::warm(runtime, chain, policy);
        let publisher = Self { balancer, feed, times };
        publisher.taken();
        publisher
    }

    /// Pushes `list`, waits until it is taken, and tells how long the balancer worked on it.
    pub fn publish(&self, list: Vec<ServiceInstance>) -> Duration {
        let waker = {
            let mut feed = self.feed.lock().expect("a feed that does not panic");
            feed.list = Some(list);
            feed.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        self.taken()
    }

    fn taken(&self) -> Duration {
        self.times.recv().expect("a source that is listened to")
    }
}

struct Feed {
    list: Option<Vec<ServiceInstance>>,
    given: Option<Instant>,
    waker: Option<Waker>,
    told: Sender<Duration>,
}

#[derive(Debug)]
struct Source {
    service: ServiceId,
    feed: Arc<Mutex<Feed>>,
}

impl ServiceInstanceListSupplier for Source {
    fn service_id(&self) -> &ServiceId {
        &self.service
    }

    fn get(&self) -> Lists {
        Box::pin(Pushed { feed: Arc::clone(&self.feed), looks_ahead: false })
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}

/// A stream is polled once behind an item, to see whether it ends there; then the item is worked on; then it is polled
/// for the next. So the time between these two polls is the work.
struct Pushed {
    feed: Arc<Mutex<Feed>>,
    looks_ahead: bool,
}

impl Stream for Pushed {
    type Item = Result<Vec<ServiceInstance>, SupplyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let feed = Arc::clone(&self.feed);
        let mut feed = feed.lock().expect("a feed that does not panic");
        feed.waker = Some(cx.waker().clone());
        if let Some(list) = feed.list.take() {
            self.looks_ahead = true;
            return Poll::Ready(Some(Ok(list)));
        }
        if self.looks_ahead {
            self.looks_ahead = false;
            feed.given = Some(Instant::now());
        } else if let Some(given) = feed.given.take() {
            // Nobody listens once the bench is over.
            let _ = feed.told.send(given.elapsed());
        }
        Poll::Pending
    }
}
