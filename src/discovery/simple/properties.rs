//! Entries from properties: `spring.cloud.discovery.client.simple.instances.<service>[i].<field>`.

use std::collections::BTreeMap;
use std::collections::HashMap;

use super::SimpleDiscovery;
use crate::ServiceId;
use crate::discovery::SimpleEntry;

/// What Spring's names of these properties begin with.
const PREFIX: &str = "spring.cloud.discovery.client.simple.instances.";

impl SimpleDiscovery {
    /// A source from flat properties, as a property file gives them.
    ///
    /// A name is `<service>[<index>].<field>`, with or without
    /// `spring.cloud.discovery.client.simple.instances.` before it; the service may stand in brackets
    /// (`[Billing.Api][0].uri`). The fields are those of [`SimpleEntry::set`]. Entries stand in the order of their
    /// indices, which may have gaps. A name that cannot be read is left out with a warning, an entry that cannot be called
    /// as well.
    ///
    /// ```
    /// use evenkeel::discovery::{DiscoveryClient, SimpleDiscovery};
    /// use evenkeel::ServiceId;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let discovery = SimpleDiscovery::from_properties([
    ///     ("spring.cloud.discovery.client.simple.instances.orders[0].uri", "http://s11:8080"),
    ///     ("spring.cloud.discovery.client.simple.instances.orders[1].uri", "https://s12:8443"),
    ///     ("spring.cloud.discovery.client.simple.instances.orders[1].metadata.zone", "eu-1a"),
    /// ]);
    /// let orders = discovery.instances(&ServiceId::new("orders")?).await?;
    /// assert_eq!((orders[0].secure(), orders[1].zone()), (Some(false), Some("eu-1a")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_properties<K: AsRef<str>, V: Into<String>>(
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut services: HashMap<ServiceId, BTreeMap<u32, SimpleEntry>> = HashMap::new();
        for (name, value) in properties {
            let name = name.as_ref();
            let short = name.strip_prefix(PREFIX).unwrap_or(name);
            let Some((service, index, field)) = split(short) else {
                tracing::warn!(name, "this property is not read: <service>[<index>].<field> is expected");
                continue;
            };
            let service = match ServiceId::new(service) {
                Ok(service) => service,
                Err(error) => {
                    tracing::warn!(name, "this property is not read: {error}");
                    continue;
                }
            };
            let entry = services.entry(service).or_default().entry(index).or_default();
            if !entry.set(field, value) {
                tracing::warn!(name, "this property is not read: no such field is known");
            }
        }
        let lists = services.into_iter().map(|(id, entries)| (id, entries.into_values().collect()));
        Self::from_entries(lists)
    }
}

/// Service, index and field; the index is the first number in brackets.
fn split(name: &str) -> Option<(&str, u32, &str)> {
    name.match_indices('[').find_map(|(at, _)| {
        let (index, rest) = name[at + 1..].split_once(']')?;
        let service = &name[..at];
        let service = service.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(service);
        Some((service, index.parse().ok()?, rest.strip_prefix('.')?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceInstance;
    use crate::discovery::DiscoveryClient;

    #[test]
    fn the_forms_of_a_name() {
        for (name, parts) in [
            ("orders[0].uri", Some(("orders", 0, "uri"))),
            ("Billing.Api-v2[12].metadata.a.b", Some(("Billing.Api-v2", 12, "metadata.a.b"))),
            ("[Billing.Api][3].host", Some(("Billing.Api", 3, "host"))),
            ("order_service[0].metadata.tags[1]", Some(("order_service", 0, "metadata.tags[1]"))),
            ("orders.uri", None),
            ("orders[x].uri", None),
            ("orders[0]", None),
            ("orders[", None),
            ("", None),
        ] {
            assert_eq!(split(name), parts, "{name}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_left_out_alone() {
        let source = SimpleDiscovery::from_properties([
            ("orders[10].uri", "http://s10:10"),
            ("ORDERS[2].host", "s2"),
            ("orders[2].port", "2"),
            ("orders[3].port", "3"),
            ("orders[2].prot", "9"),
            ("bad id[0].uri", "http://s1:1"),
            ("orders.uri", "http://s1:1"),
        ]);
        let list = source.instances(&ServiceId::new("orders").unwrap()).await.unwrap();
        assert_eq!(list.iter().map(ServiceInstance::authority).collect::<Vec<_>>(), ["s2:2", "s10:10"]);
    }
}
