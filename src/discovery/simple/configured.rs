//! The instances that a [`Properties`] holds.

use super::SimpleDiscovery;
use crate::ServiceId;
use crate::config::{Properties, SimpleInstanceProperties};
use crate::discovery::SimpleEntry;

impl SimpleDiscovery {
    /// The instances of `spring.cloud.discovery.client.simple.instances`.
    ///
    /// ```
    /// # #[cfg(feature = "config")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel::config::{Format, Properties};
    /// use evenkeel::discovery::SimpleDiscovery;
    ///
    /// let text = "spring.cloud.discovery.client.simple.instances.orders: [{uri: 'http://10.0.0.1:8080'}]";
    /// let registry = SimpleDiscovery::configured(&Properties::parse(text, Format::Yaml, "application.yml")?);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "config"))]
    /// # fn main() {}
    /// ```
    pub fn configured(properties: &Properties) -> Self {
        Self::from_entries(entries(properties))
    }

    /// Takes over the instances that changed properties hold; services that they no longer name have none.
    pub fn reconfigure(&self, properties: &Properties) {
        self.replace_all(&Self::configured(properties));
    }
}

fn entries(properties: &Properties) -> Vec<(ServiceId, Vec<SimpleEntry>)> {
    let mut services = Vec::new();
    for (name, instances) in properties.simple_instances() {
        match ServiceId::new(name) {
            Ok(id) => services.push((id, instances.iter().map(entry).collect())),
            Err(error) => tracing::warn!(%error, "the instances of a configured service are left out"),
        }
    }
    services
}

fn entry(from: &SimpleInstanceProperties) -> SimpleEntry {
    let mut entry = match (&from.uri, from.port) {
        (Some(uri), _) => SimpleEntry::uri(uri.as_str()),
        (None, Some(port)) => SimpleEntry::at(from.host.as_str(), port),
        (None, None) => {
            let mut entry = SimpleEntry::default();
            entry.set("host", from.host.as_str());
            entry
        }
    };
    if from.uri.is_none() {
        entry.secure = from.secure.map(|secure| secure.to_string());
    }
    entry.instance_id.clone_from(&from.instance_id);
    entry.metadata = from.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    entry
}

#[cfg(all(test, feature = "config"))]
mod tests {
    use super::*;
    use crate::ServiceInstance;
    use crate::config::Format;
    use crate::discovery::DiscoveryClient;

    const TEXT: &str = "
spring.cloud.discovery.client.simple.instances:
  orders:
    - uri: https://s21:8443
      instance-id: first
    - {host: '2001:db8::5', port: 8080, metadata: {zone: eu-1a, weight: 2}}
";

    #[tokio::test]
    async fn scl_115_instances_of_a_file_become_a_registry_and_follow_it() {
        let read = |text| Properties::parse(text, Format::Yaml, "t.yml").unwrap();
        let registry = SimpleDiscovery::configured(&read(TEXT));
        let orders = ServiceId::new("ORDERS").unwrap();
        let list = registry.instances(&orders).await.unwrap();
        let shown: Vec<_> = list.iter().map(|i| (i.to_string(), i.secure(), i.zone())).collect();
        assert_eq!(
            shown,
            [
                ("first (s21:8443)".to_owned(), Some(true), None),
                ("2001:db8::5:8080 ([2001:db8::5]:8080)".to_owned(), None, Some("eu-1a")),
            ]
        );
        registry.reconfigure(&read(
            "spring.cloud.discovery.client.simple.instances.users: [{uri: 'http://u:1'}]",
        ));
        assert_eq!(registry.instances(&orders).await.unwrap(), Vec::<ServiceInstance>::new());
        assert_eq!(registry.instances(&ServiceId::new("users").unwrap()).await.unwrap().len(), 1);
    }
}
