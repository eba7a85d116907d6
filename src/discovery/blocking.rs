//! A synchronous client, run off the async workers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::{DiscoveryClient, HealthRecord, SourceHealth, SupplyError, SupplyErrorKind};
use crate::{ServiceId, ServiceInstance};

/// A registry client that blocks its thread; [`Blocking`] makes a [`DiscoveryClient`] of it.
///
/// The three kinds of answer are told apart as there: a list, a true empty answer, no answer (`Err`).
pub trait BlockingDiscoveryClient: Send + Sync + fmt::Debug + 'static {
    /// What errors and logs call this source.
    fn name(&self) -> &str;

    /// All instances of `service`; may block for as long as its own limits allow.
    ///
    /// # Errors
    /// [`SupplyError`] for no answer.
    fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError>;

    /// The names of all services that the registry lists.
    ///
    /// # Errors
    /// [`SupplyError`] for no answer.
    fn services(&self) -> Result<Vec<ServiceId>, SupplyError>;
}

/// Runs a [`BlockingDiscoveryClient`] on tokio's threads for blocking work, so that it holds up no other task.
///
/// At most 32 calls run at a time ([`with_concurrency`](Self::with_concurrency)); more wait their turn, without a
/// thread. A call that its caller gave up goes on to its end and holds its place until then, since a thread cannot be
/// cancelled. A panic becomes [`SupplyErrorKind::Panicked`]; a call outside of a tokio runtime
/// [`SupplyErrorKind::Aborted`].
///
/// ```
/// use evenkeel::discovery::{Blocking, BlockingDiscoveryClient, DiscoveryClient, SupplyError};
/// use evenkeel::{ServiceId, ServiceInstance};
///
/// #[derive(Debug)]
/// struct Slow;
///
/// impl BlockingDiscoveryClient for Slow {
///     fn name(&self) -> &str {
///         "slow"
///     }
///     fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
///         std::thread::sleep(std::time::Duration::from_millis(1));
///         Ok(ServiceInstance::new("127.0.0.1", 8080).into_iter().collect())
///     }
///     fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
///         Ok(vec![])
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let discovery = Blocking::new(Slow);
/// assert_eq!(discovery.instances(&ServiceId::new("orders")?).await?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Blocking<C> {
    client: Arc<C>,
    places: Arc<Semaphore>,
    health: HealthRecord,
}

/// Tokio runs up to 512 blocking calls, shared with file access and name look-ups; a registry that hangs must leave
/// most of them to those.
const CONCURRENCY: usize = 32;

impl<C: BlockingDiscoveryClient> Blocking<C> {
    /// Wraps `client`.
    pub fn new(client: C) -> Self {
        Self {
            client: Arc::new(client),
            places: Arc::new(Semaphore::new(CONCURRENCY)),
            health: HealthRecord::default(),
        }
    }

    /// How many calls may run at a time (default 32; 0 counts as 1).
    #[must_use]
    pub fn with_concurrency(mut self, calls: usize) -> Self {
        self.places = Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// The client that is wrapped.
    pub fn get_ref(&self) -> &C {
        &self.client
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&C) -> Result<T, SupplyError> + Send + 'static,
    ) -> Result<T, SupplyError> {
        let failed = |kind, message: String| SupplyError::new(kind, self.client.name(), message);
        let Ok(runtime) = Handle::try_current() else {
            return Err(failed(
                SupplyErrorKind::Aborted,
                "it is called outside of a tokio runtime".to_owned(),
            ));
        };
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(failed(SupplyErrorKind::Aborted, String::new()));
        };
        let client = Arc::clone(&self.client);
        let work = runtime.spawn_blocking(move || {
            let _place = place;
            call(&client)
        });
        match work.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => {
                let panic = error.into_panic();
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                Err(failed(SupplyErrorKind::Panicked, text))
            }
            Err(error) => Err(failed(SupplyErrorKind::Aborted, error.to_string())),
        }
    }
}

#[async_trait]
impl<C: BlockingDiscoveryClient> DiscoveryClient for Blocking<C> {
    fn name(&self) -> &str {
        self.client.name()
    }

    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let asked = service.clone();
        let answer = self.run(move |client| client.instances(&asked)).await;
        self.health.record(answer.map_err(|error| error.of_service(service)))
    }

    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        let answer = self.run(BlockingDiscoveryClient::services).await;
        self.health.record(answer)
    }

    /// As its answers tell; the client itself is not asked.
    fn health(&self) -> SourceHealth {
        self.health.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::SourceState;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Blocks until it is told how to answer.
    #[derive(Debug)]
    struct Gated(parking_lot::Mutex<mpsc::Receiver<bool>>);

    impl BlockingDiscoveryClient for Gated {
        fn name(&self) -> &'static str {
            "gated"
        }
        fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
            assert!(self.0.lock().recv().unwrap(), "told to panic");
            Ok(vec![])
        }
        fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
            Ok(vec![])
        }
    }

    #[tokio::test]
    async fn case_066_a_blocking_client_holds_up_no_other_task() {
        let (answer, answers) = mpsc::channel();
        let source = Arc::new(Blocking::new(Gated(parking_lot::Mutex::new(answers))));
        let slow = tokio::spawn({
            let source = Arc::clone(&source);
            async move { source.instances(&ServiceId::new("slow").unwrap()).await }
        });
        // The one worker goes on: were it blocked, nothing would ever send the answer.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!slow.is_finished());
        assert!(source.services().await.unwrap().is_empty());
        answer.send(true).unwrap();
        assert!(slow.await.unwrap().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_no_answer() {
        let (answer, answers) = mpsc::channel();
        let source = Blocking::new(Gated(parking_lot::Mutex::new(answers))).with_concurrency(0);
        answer.send(false).unwrap();
        let error = source.instances(&ServiceId::new("orders").unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), SupplyErrorKind::Panicked);
        assert_eq!(error.to_string(), r#"gated panicked for service "orders": told to panic"#);
        assert_eq!(source.health().state, SourceState::Failing);
        // The place that it held is free again.
        answer.send(true).unwrap();
        assert!(source.instances(&ServiceId::new("orders").unwrap()).await.is_ok());
    }

    #[test]
    fn outside_of_a_runtime_it_is_an_error() {
        let source = Blocking::new(Gated(parking_lot::Mutex::new(mpsc::channel().1)));
        let error = futures_util::FutureExt::now_or_never(source.services()).unwrap().unwrap_err();
        assert_eq!(error.kind(), SupplyErrorKind::Aborted);
    }
}
