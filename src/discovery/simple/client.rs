//! Instances from code or configuration.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::watch;

use crate::discovery::{DiscoveryClient, HealthRecord, Lists, SimpleEntry, SourceHealth, SupplyError};
use crate::{InvalidServiceId, ServiceId, ServiceInstance};

/// A source whose instances come from code or from configuration, and can be changed while it is used.
///
/// Clones share their instances. Each change is pushed at once to whoever watches ([`polling`](Self::polling) switches
/// that off). A service that was never set, or was removed, is an empty list. Names are compared without case.
///
/// ```
/// use evenkeel::discovery::{DiscoveryClient, SimpleDiscovery};
/// use evenkeel::{ServiceId, ServiceInstance};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let discovery = SimpleDiscovery::new().with_instances("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// let orders = ServiceId::new("ORDERS")?;
/// assert_eq!(discovery.instances(&orders).await?.len(), 1);
///
/// discovery.set(&orders, [ServiceInstance::new("10.0.0.2", 8080)?, ServiceInstance::new("10.0.0.3", 8080)?]);
/// assert_eq!(discovery.instances(&orders).await?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimpleDiscovery {
    shared: Arc<Shared>,
    push: bool,
}

#[derive(Debug)]
struct Shared {
    lists: watch::Sender<HashMap<ServiceId, Arc<[ServiceInstance]>>>,
    health: HealthRecord,
}

impl Default for SimpleDiscovery {
    fn default() -> Self {
        Self::new()
    }
}

impl SimpleDiscovery {
    /// A source without any service.
    pub fn new() -> Self {
        let (lists, _) = watch::channel(HashMap::new());
        Self { shared: Arc::new(Shared { lists, health: HealthRecord::default() }), push: true }
    }

    /// A source with the entries of a configuration.
    ///
    /// An entry that cannot be called is left out with one warning, which names service and id. Entries of one service
    /// that come under two spellings are put together.
    ///
    /// ```
    /// use evenkeel::discovery::{SimpleDiscovery, SimpleEntry};
    /// use evenkeel::ServiceId;
    ///
    /// let entries = vec![SimpleEntry::uri("http://s11:8080"), SimpleEntry::at("s12", 0)];
    /// let discovery = SimpleDiscovery::from_entries([(ServiceId::new("orders")?, entries)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_entries(services: impl IntoIterator<Item = (ServiceId, Vec<SimpleEntry>)>) -> Self {
        let mut lists: HashMap<ServiceId, Vec<ServiceInstance>> = HashMap::new();
        for (service, entries) in services {
            let list = lists.entry(service.clone()).or_default();
            for entry in entries {
                match entry.read(&service) {
                    Ok((instance, notes)) => {
                        list.push(instance);
                        for note in notes {
                            tracing::warn!(%service, %note, "a configured instance is doubtful");
                        }
                    }
                    Err(error) => tracing::warn!(%service, %error, "a configured instance is left out"),
                }
            }
        }
        let source = Self::new();
        source.shared.lists.send_replace(lists.into_iter().map(|(id, list)| (id, list.into())).collect());
        source
    }

    /// Takes over all lists of `other`; each changed one is pushed.
    pub(super) fn replace_all(&self, other: &Self) {
        self.shared.lists.send_replace(other.shared.lists.borrow().clone());
    }

    /// The same with `instances` as the list of `service`, which replaces an earlier one.
    ///
    /// # Errors
    /// [`InvalidServiceId`] for a text that names no service.
    pub fn with_instances<S>(
        self,
        service: S,
        instances: impl IntoIterator<Item = ServiceInstance>,
    ) -> Result<Self, InvalidServiceId>
    where
        S: TryInto<ServiceId>,
        InvalidServiceId: From<S::Error>,
    {
        self.set(&service.try_into()?, instances);
        Ok(self)
    }

    /// The same, but this handle can only be asked: its `watch` gives `None`, as that of a registry without push.
    #[must_use]
    pub fn polling(mut self) -> Self {
        self.push = false;
        self
    }

    /// Replaces the list of `service` and pushes it; an equal list in the same order pushes nothing.
    pub fn set(&self, service: &ServiceId, instances: impl IntoIterator<Item = ServiceInstance>) {
        let list: Arc<[ServiceInstance]> = instances.into_iter().collect();
        self.shared.lists.send_if_modified(|lists| {
            if lists.get(service).is_some_and(|old| *old == list) {
                return false;
            }
            lists.insert(service.clone(), list);
            true
        });
    }

    /// Forgets `service`: its list is empty from now on, and [`services`](DiscoveryClient::services) no longer names it.
    pub fn remove(&self, service: &ServiceId) {
        self.shared.lists.send_if_modified(|lists| lists.remove(service).is_some());
    }
}

impl Shared {
    fn list(&self, service: &ServiceId) -> Arc<[ServiceInstance]> {
        self.lists.borrow().get(service).cloned().unwrap_or_default()
    }
}

/// One subscription; it keeps the source alive, so that the stream never ends.
struct Subscription {
    shared: Arc<Shared>,
    changes: watch::Receiver<HashMap<ServiceId, Arc<[ServiceInstance]>>>,
    service: ServiceId,
    sent: Option<Arc<[ServiceInstance]>>,
}

impl Subscription {
    async fn next(mut self) -> Option<(Result<Vec<ServiceInstance>, SupplyError>, Self)> {
        loop {
            self.changes.mark_unchanged();
            let list = self.shared.list(&self.service);
            if self.sent.as_ref() != Some(&list) {
                self.sent = Some(Arc::clone(&list));
                return Some((self.shared.health.record(Ok(list.to_vec())), self));
            }
            self.changes.changed().await.ok()?;
        }
    }
}

#[async_trait]
impl DiscoveryClient for SimpleDiscovery {
    fn name(&self) -> &'static str {
        "simple"
    }

    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        self.shared.health.record(Ok(self.shared.list(service).to_vec()))
    }

    fn watch(&self, service: &ServiceId) -> Option<Lists> {
        let subscription = Subscription {
            shared: Arc::clone(&self.shared),
            changes: self.shared.lists.subscribe(),
            service: service.clone(),
            sent: None,
        };
        self.push.then(|| Box::pin(stream::unfold(subscription, Subscription::next)) as Lists)
    }

    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        let mut names: Vec<ServiceId> = self.shared.lists.borrow().keys().cloned().collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        self.shared.health.record(Ok(names))
    }

    fn health(&self) -> SourceHealth {
        self.shared.health.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::SourceState;
    use futures_util::{FutureExt, StreamExt};

    fn id(text: &str) -> ServiceId {
        ServiceId::new(text).unwrap()
    }

    fn at(port: u16) -> ServiceInstance {
        ServiceInstance::new("10.0.0.1", port).unwrap()
    }

    #[tokio::test]
    async fn case_051_bad_ports_are_left_out_of_the_configuration() {
        let entry = |name: &str, port: Option<&str>| {
            let mut entry = SimpleEntry { host: Some("h".to_owned()), ..SimpleEntry::default() };
            entry.set("instance-id", name);
            entry.port = port.map(str::to_owned);
            entry
        };
        let all = vec![
            entry("a", Some("8080")),
            entry("b", None),
            entry("c", Some("0")),
            entry("d", Some("-1")),
            entry("e", Some("70000")),
            entry("f", Some("80a")),
        ];
        let bad = all[2..4].to_vec();
        let source = SimpleDiscovery::from_entries([(id("orders"), all), (id("second"), bad)]);
        let list = source.instances(&id("orders")).await.unwrap();
        assert_eq!(list.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(list[1].port(), None);
        assert_eq!(source.instances(&id("second")).await.unwrap(), []);
        assert_eq!(source.services().await.unwrap(), [id("orders"), id("second")]);
    }

    #[tokio::test]
    async fn case_047_spellings_reach_one_list_and_other_names_an_empty_one() {
        let source = SimpleDiscovery::new()
            .with_instances("ORDER-SERVICE", [at(1)])
            .unwrap()
            .with_instances("order_service", [at(2)])
            .unwrap();
        assert_eq!(source.instances(&id("order-service.")).await.unwrap(), [at(1)]);
        assert_eq!(source.instances(&id("Order_Service")).await.unwrap(), [at(2)]);
        assert_eq!(source.instances(&id("nobody")).await.unwrap(), []);
        assert!(SimpleDiscovery::new().with_instances("bad id", []).is_err());
    }

    #[tokio::test]
    async fn each_change_of_its_own_list_is_pushed_at_once() {
        let source = SimpleDiscovery::new();
        assert_eq!(source.health().state, SourceState::Unknown);
        let mut lists = source.watch(&id("orders")).unwrap();
        assert_eq!(lists.next().await.unwrap().unwrap(), []);
        source.set(&id("users"), [at(9)]);
        source.set(&id("orders"), []);
        assert!(lists.next().now_or_never().is_none());
        source.set(&id("Orders"), [at(1)]);
        assert_eq!(lists.next().now_or_never().unwrap().unwrap().unwrap(), [at(1)]);
        source.remove(&id("orders"));
        let watched = source.clone();
        drop(source);
        assert_eq!(lists.next().now_or_never().unwrap().unwrap().unwrap(), []);
        assert_eq!(watched.health().state, SourceState::Healthy);
        assert!(watched.polling().watch(&id("orders")).is_none());
    }
}
