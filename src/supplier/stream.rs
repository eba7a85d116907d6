//! A chain as a stream of lists, without a balancer.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::stream;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::driver::{Driver, LookUp, Origin, Publish, Unready};
use super::{Chain, Chained, Hub, Supplier};
use crate::discovery::{Lists, SupplyError, SupplyErrorKind};
use crate::{ServiceId, ServiceInstance};

/// The driver that all streams of one chain share; made by the first.
#[derive(Default)]
pub(super) struct Streams(OnceLock<Arc<Driver<ListBoard>>>);

impl Streams {
    pub(super) fn stream(&self, supplier: &Supplier) -> Lists {
        let driver = self.0.get_or_init(|| {
            let board = ListBoard {
                service: supplier.base.service_id().clone(),
                chain: supplier.chain.clone(),
                raw: Mutex::new(None),
                lists: watch::Sender::new(None),
            };
            let (settings, runtime) = (supplier.settings.clone(), supplier.runtime.clone());
            let driver =
                Arc::new(Driver::new(Arc::clone(&supplier.base), settings, runtime, supplier.seed, board));
            supplier.chain.attach(&Hub::new(Arc::downgrade(&driver) as Weak<dyn Chained>));
            driver
        });
        let state = Follow {
            lists: driver.publish.lists.subscribe(),
            epochs: driver.epochs(),
            driver: Arc::clone(driver),
            first: true,
            failed: false,
        };
        Box::pin(stream::unfold(
            state,
            |mut state| async move { state.next().await.map(|item| (item, state)) },
        ))
    }
}

struct Follow {
    driver: Arc<Driver<ListBoard>>,
    lists: watch::Receiver<Option<Arc<[ServiceInstance]>>>,
    epochs: watch::Receiver<u64>,
    first: bool,
    /// The failure at hand was told already.
    failed: bool,
}

impl Follow {
    async fn next(&mut self) -> Option<Result<Vec<ServiceInstance>, SupplyError>> {
        loop {
            self.epochs.borrow_and_update();
            let word = self.driver.word.load();
            if word.wants_attention() {
                // This stream is a caller: what is due is started, and a watch learns that somebody is there.
                match self.driver.attend(word) {
                    Err(Unready::Closed) => return None,
                    Err(Unready::NoRuntime) => {
                        let error =
                            SupplyError::new(SupplyErrorKind::Aborted, "the stream", "no tokio runtime");
                        return Some(Err(error));
                    }
                    _ => {}
                }
            }
            let error = self.driver.last_error();
            let changed = self.lists.has_changed().unwrap_or(false) || self.first;
            if let (true, Some(list)) = (changed, self.lists.borrow_and_update().clone()) {
                self.first = false;
                return Some(Ok(list.to_vec()));
            }
            match error {
                Some(error) if !self.failed => {
                    self.failed = true;
                    return Some(Err(error));
                }
                Some(_) => {}
                None => self.failed = false,
            }
            if self.epochs.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// Takes lists from the driver and hands them to the streams.
pub(super) struct ListBoard {
    service: ServiceId,
    chain: Chain,
    raw: Mutex<Option<Vec<ServiceInstance>>>,
    lists: watch::Sender<Option<Arc<[ServiceInstance]>>>,
}

impl ListBoard {
    /// Runs the stages on `raw` and publishes what is left, if that differs.
    fn shape(&self, raw: &[ServiceInstance]) -> bool {
        let named = raw.iter().map(|instance| instance.within(&self.service)).collect();
        let usable = self.chain.whole(named, &self.service);
        self.lists.send_if_modified(|current| {
            if current.as_deref() == Some(&*usable) {
                return false;
            }
            *current = Some(usable.into());
            true
        })
    }
}

impl Publish for ListBoard {
    fn publish(&self, list: Vec<ServiceInstance>, _: Origin, _: Instant) -> bool {
        if self.raw.lock().as_ref() == Some(&list) {
            return false;
        }
        let changed = self.shape(&list);
        // Last, so that a list at which a stage panics is not taken for known.
        *self.raw.lock() = Some(list);
        changed
    }

    fn wake(&self) {
        self.chain.wake();
    }

    fn close(&self) {
        self.chain.close();
    }

    fn recompute(&self) {
        let raw = self.raw.lock().clone();
        if let Some(raw) = raw {
            self.shape(&raw);
        }
    }

    fn mark(&self, _: Origin) {}

    fn clear(&self) {
        *self.raw.lock() = None;
        self.lists.send_replace(None);
    }

    fn has_instances(&self) -> Option<bool> {
        self.raw.lock().as_ref().map(|list| !list.is_empty())
    }

    fn raw(&self) -> Vec<ServiceInstance> {
        self.raw.lock().clone().unwrap_or_default()
    }

    fn run_on(&self, _: &Handle) {}

    fn looked_up(&self, _: LookUp) {}
}
