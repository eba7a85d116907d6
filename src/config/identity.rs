//! What this process is called.

use super::balancer::trimmed;
use super::placeholder::Resolver;

/// The keys outside our prefixes that the names come from.
pub(crate) const APPLICATION_NAME: &str = "spring.application.name";
const APPLICATION_ID: &str = "spring.application.instance_id";
const HOST_NAME: &str = "spring.cloud.client.hostname";
const PORT: &str = "server.port";
const PLATFORM_ID: &str = "vcap.application.instance_id";

/// All of them.
pub(crate) const KEYS: [&str; 5] = [APPLICATION_NAME, APPLICATION_ID, HOST_NAME, PORT, PLATFORM_ID];

/// The names of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) application: Option<String>,
    pub(crate) instance: Option<String>,
    /// Whether that is made of nothing that tells one process of the application from another.
    pub(crate) shared: bool,
}

impl Identity {
    /// Spring's rule: the platform's id of this instance; else host name, application name and the application's id of
    /// this instance, or its port, as far as they are known, joined by colons.
    pub(crate) fn of(resolver: &Resolver<'_>) -> Self {
        let value = |key: &str| resolver.value(key).as_deref().and_then(trimmed);
        let application = value(APPLICATION_NAME);
        let platform =
            value(PLATFORM_ID).or_else(|| value("VCAP_APPLICATION").as_deref().and_then(platform_id));
        let host = value(HOST_NAME).or_else(|| value("HOSTNAME"));
        let own = value(APPLICATION_ID);
        let told = platform.is_some() || host.is_some() || own.is_some();
        let instance = platform.or_else(|| {
            let last = own.or_else(|| value(PORT));
            let parts: Vec<_> = [host, application.clone(), last].into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(":"))
        });
        let shared = instance.is_some() && !told;
        Self { application, instance, shared }
    }
}

/// The id in the description that Cloud Foundry puts into the environment.
#[cfg(feature = "config")]
fn platform_id(description: &str) -> Option<String> {
    let description: serde_json::Value = serde_json::from_str(description).ok()?;
    trimmed(description.get("instance_id")?.as_str()?)
}

#[cfg(not(feature = "config"))]
fn platform_id(_: &str) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::values::Values;
    use super::super::variables::Variables;
    use super::*;

    fn instance(variables: &[(&str, &str)]) -> Option<String> {
        let variables: Variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Identity::of(&Resolver::new(&Values::default(), &variables, Vec::new())).instance
    }

    #[test]
    fn the_name_is_made_of_what_is_known() {
        const HOST: (&str, &str) = ("spring.cloud.client.hostname", "myhost");
        const NAME: (&str, &str) = ("SPRING_APPLICATION_NAME", "app");
        const PORT: (&str, &str) = ("SERVER_PORT", "80");
        for (variables, wanted) in [
            (&[][..], None),
            (&[("HOSTNAME", " ")], None),
            (&[HOST], Some("myhost")),
            (&[NAME], Some("app")),
            (&[HOST, NAME], Some("myhost:app")),
            (&[NAME, PORT], Some("app:80")),
            (&[HOST, NAME, PORT], Some("myhost:app:80")),
            (&[("HOSTNAME", "pod-7"), NAME, PORT], Some("pod-7:app:80")),
            (&[("HOSTNAME", "pod-7"), HOST, NAME], Some("myhost:app")),
            (&[HOST, NAME, PORT, ("SPRING_APPLICATION_INSTANCE_ID", "i-3")], Some("myhost:app:i-3")),
            (&[HOST, NAME, PORT, ("VCAP_APPLICATION_INSTANCE_ID", "p-9")], Some("p-9")),
            (&[HOST, ("vcap.application.instance_id", "p-9")], Some("p-9")),
            (&[HOST, ("SPRING_APPLICATION_NAME", "${NOT_KNOWN}")], Some("myhost")),
        ] {
            assert_eq!(instance(variables).as_deref(), wanted, "{variables:?}");
        }
    }

    #[cfg(feature = "config")]
    #[test]
    fn the_platform_may_say_it_in_json() {
        let id = |text: &str| instance(&[("VCAP_APPLICATION", text), ("HOSTNAME", "h")]);
        assert_eq!(id(r#"{"instance_id": "p-9", "limits": {}}"#).as_deref(), Some("p-9"));
        assert_eq!(id("{}").as_deref(), Some("h"));
        assert_eq!(id("not json").as_deref(), Some("h"));
    }
}
