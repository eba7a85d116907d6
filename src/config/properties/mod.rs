//! The layered set of all properties.

mod settle;

use crate::config::address::{self, Owner, Prefix};
use crate::config::balancer::{GlobalProperties, LoadBalancerProperties};
use crate::config::choices::Preset;
use crate::config::error::{ConfigError, Issues, Place, Warning};
#[cfg(feature = "config")]
use crate::config::format::Files;
use crate::config::identity::{self, Identity};
use crate::config::key::{self, Token};
use crate::config::layer::{Found, Layer, Setting};
use crate::config::meaningless;
use crate::config::names::{self, EAGER};
use crate::config::simple::SimpleInstanceProperties;
#[cfg(feature = "gateway")]
use crate::config::subtree::{self, Subtree};
use crate::config::values::{Value, Values};
use crate::config::variables::Variables;
use std::collections::BTreeSet;
use std::fmt;

/// All properties of a process, in layers.
///
/// What a service gets is decided value by value, the first of these that says anything:
///
/// 1. code for the service ([`Properties::set_for`])
/// 2. environment, then file, for the service (`evenkeel.clients.<id>.*`)
/// 3. code for all ([`Properties::set`])
/// 4. environment, then file, for all (`evenkeel.*`)
/// 5. the defaults of the preset
///
/// A list (`configurations`, `routing`, the simple instances of a service) is one value: it is replaced as a whole.
/// Everything is checked when it is read, so [`Properties::effective`] cannot fail. Cloning copies every layer.
///
/// ```
/// # fn main() -> Result<(), evenkeel::config::ConfigError> {
/// use evenkeel::config::Properties;
/// use std::time::Duration;
///
/// let properties = Properties::default().set("cache.ttl", "10s")?.set_for("billing", "cache.ttl", "5s")?;
/// assert_eq!(properties.effective("billing").cache.ttl, Duration::from_secs(5));
/// assert_eq!(properties.effective("orders").cache.ttl, Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Properties {
    #[cfg(feature = "config")]
    files: Files,
    variables: Variables,
    /// What the code set, as written: keys outside our prefixes, and ours.
    values: Values,
    written: Layer,
    /// Keys without a meaning that the code set.
    accepted: Vec<Warning>,
    /// What came out of the above.
    file: Layer,
    environment: Layer,
    code: Layer,
    identity: Identity,
    warnings: Vec<Warning>,
    ignored: Vec<Warning>,
    instances: Vec<(String, Vec<SimpleInstanceProperties>)>,
    #[cfg(feature = "gateway")]
    gateway: Subtree,
}

/// Equal are sets that say the same in each layer, and of the process, wherever the lines stand.
impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
            && self.environment == other.environment
            && self.code == other.code
            && self.identity == other.identity
            && self.same_gateway(other)
    }
}

impl Properties {
    /// Reads variables as the environment layer, in place of the one there was.
    ///
    /// All of them are kept, since placeholders may name any; none is shown. Names of ours are `EVENKEEL_` or `SPRING_CLOUD_LOADBALANCER_` and the property in upper case, its dots and dashes as
    /// underscores: `EVENKEEL_CACHE_HARD_AGE` (Spring's `..._HARDAGE` works too). Below `EVENKEEL_CLIENTS_` follows
    /// the service: the one id known from file, code or eager load that is spelt so (`ORDER_SERVICE` for
    /// `order-service`, `order_service` or `order.service`). Two such ids are an error. If none is known, the id
    /// is the words in lower case with dashes, `order-service`. Variables with other prefixes are ignored.
    ///
    /// [`Properties::load`] takes the environment of the process by itself.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::Properties;
    ///
    /// let properties = Properties::default().with_environment([("EVENKEEL_ZONE", "eu-1a")])?;
    /// assert_eq!(properties.effective("orders").zone.as_deref(), Some("eu-1a"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_environment<I, K, V>(mut self, variables: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<String>,
    {
        self.variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.settle(Issues::default())
    }

    /// Takes variables; they are read when the set is settled.
    #[cfg(feature = "config")]
    pub(crate) fn with_variables(mut self, variables: impl Iterator<Item = (String, String)>) -> Self {
        self.variables = variables.collect();
        self
    }

    /// Takes files in place of those there were; the profiles that the code names stay.
    #[cfg(feature = "config")]
    pub(crate) fn with_files(mut self, files: Files) -> Result<Self, ConfigError> {
        let named = self.files.named.take();
        self.files = files;
        self.files.named = named;
        self.settle(Issues::default())
    }

    /// Names the active profiles in code, in place of those that the environment or a file names; none at all is the
    /// profile `default`.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::{Format, Properties};
    ///
    /// let text = "evenkeel.zone: eu\n---\nspring.config.activate.on-profile: us\nevenkeel.zone: us\n";
    /// let properties = Properties::parse(text, Format::Yaml, "application.yml")?;
    /// assert_eq!(properties.effective("orders").zone.as_deref(), Some("eu"));
    /// let properties = properties.with_profiles(["us"])?;
    /// assert_eq!(properties.effective("orders").zone.as_deref(), Some("us"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the documents and files of these profiles say may be wrong. Their files are read now.
    #[cfg(feature = "config")]
    #[cfg_attr(docsrs, doc(cfg(feature = "config")))]
    pub fn with_profiles<I, P>(mut self, profiles: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = P>,
        P: Into<String>,
    {
        self.files.named = Some(profiles.into_iter().map(Into::into).collect());
        self.settle(Issues::default())
    }

    /// The active profiles, in the order in which their documents count, the last over the others.
    #[cfg(feature = "config")]
    #[cfg_attr(docsrs, doc(cfg(feature = "config")))]
    pub fn profiles(&self) -> &[String] {
        &self.files.active
    }

    /// The files this set comes from, and those that it would come from if they were there.
    #[cfg(feature = "file")]
    pub(crate) fn paths(&self) -> Vec<std::path::PathBuf> {
        self.files.paths()
    }

    /// The files that a set would come from with this file in place of its own, be they right or wrong.
    #[cfg(feature = "file")]
    pub(crate) fn paths_of(&self, path: &std::path::Path) -> Option<Vec<std::path::PathBuf>> {
        let mut files = Files::read(path).ok()?;
        files.named.clone_from(&self.files.named);
        // The profiles are told before their files are read.
        let _ = files.choose(&self.values, &self.variables, &mut Issues::default());
        Some(files.paths())
    }

    /// What the application calls itself, from `spring.application.name`; `None` if nobody says.
    pub fn application_name(&self) -> Option<&str> {
        self.identity.application.as_deref()
    }

    /// What tells this process from others of its kind, unless `subset.instance-id` says so.
    ///
    /// Spring's rule: `vcap.application.instance_id`; else what is known of host name (`spring.cloud.client.hostname`,
    /// or the variable `HOSTNAME`), `spring.application.name`, and `spring.application.instance_id` or `server.port`,
    /// joined by colons. `None` if nothing is.
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::Properties;
    ///
    /// let variables = [("HOSTNAME", "pod-7"), ("SPRING_APPLICATION_NAME", "shop"), ("SERVER_PORT", "8080")];
    /// let properties = Properties::default().with_environment(variables)?;
    /// assert_eq!(properties.instance_id(), Some("pod-7:shop:8080"));
    /// assert_eq!(properties.effective("orders").subset.instance_id.as_deref(), Some("pod-7:shop:8080"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn instance_id(&self) -> Option<&str> {
        self.identity.instance.as_deref()
    }

    /// Sets a key that is not ours, in code: what placeholders, and the names of the application, are looked up in first.
    ///
    /// One of ours is set as by [`Properties::set`].
    ///
    /// ```
    /// # fn main() -> Result<(), evenkeel::config::ConfigError> {
    /// use evenkeel::config::Properties;
    ///
    /// let properties = Properties::default().with_value("app.zone", "eu-1a")?.set("zone", "${app.zone}")?;
    /// assert_eq!(properties.effective("orders").zone.as_deref(), Some("eu-1a"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_value(mut self, key: &str, value: impl fmt::Display) -> Result<Self, ConfigError> {
        let mut path = Vec::new();
        key::split(key, 0, &mut path);
        if Prefix::strip(&path).is_some() {
            return self.set_path(&path, &value.to_string());
        }
        self.values.put(&path, Value { text: value.to_string(), place: Place::Code });
        self.settle(Issues::default())
    }

    /// Sets one property for all services, in code, over the value set before.
    ///
    /// The key is spelt as in a file, its prefix may be left out: `cache.ttl` is `evenkeel.cache.ttl`. A list is a
    /// comma list. An unknown key is an error here. The keys of the application that are read (`spring.application.name`
    /// and others, `spring.profiles.*`) may be set as well.
    pub fn set(self, key: &str, value: impl fmt::Display) -> Result<Self, ConfigError> {
        let mut path = Vec::new();
        key::split(key, 0, &mut path);
        let profiles = |path: &[Token]| path.len() > 2 && path[0].is("spring") && path[1].is("profiles");
        if identity::KEYS.iter().any(|name| meaningless::is(&path, name))
            || meaningless::other(&path).is_some()
            || profiles(&path)
            || is_gateways(&path)
        {
            return self.with_value(key, value);
        }
        if Prefix::strip(&path).is_none() {
            path.insert(0, Token::Name { text: Prefix::Evenkeel.as_str().to_owned(), node: 0 });
        }
        if is_gateways(&path) {
            return self.with_value(&key::render(&path), value);
        }
        self.set_path(&path, &value.to_string())
    }

    /// Sets one property for one service, in code: the strongest of all layers.
    ///
    /// The key is spelt as in a file below `clients.<id>`, such as `cache.ttl`; the id may hold dots.
    pub fn set_for(self, service: &str, key: &str, value: impl fmt::Display) -> Result<Self, ConfigError> {
        let mut path: Vec<_> = [Prefix::Evenkeel.as_str(), "clients", service]
            .into_iter()
            .map(|text| Token::Name { text: text.to_owned(), node: 0 })
            .collect();
        key::split(key, 1, &mut path);
        self.set_path(&path, &value.to_string())
    }

    fn set_path(mut self, path: &[Token], text: &str) -> Result<Self, ConfigError> {
        let mut issues = Issues::default();
        let setting = Setting { key: key::render(path), text: text.to_owned(), place: Place::Code };
        let address = Prefix::strip(path).map(|(prefix, rest)| (prefix, address::address(prefix, rest)));
        match address {
            Some((prefix, Ok(address))) => {
                self.values.put(path, Value { text: setting.text.clone(), place: Place::Code });
                self.written.put(Found { address, prefix, setting }, &mut issues);
            }
            Some((_, Err(unknown))) if unknown.accepted => {
                self.accepted.push(unknown.warning(&setting.key, &Place::Code));
            }
            Some((_, Err(unknown))) => {
                // A misspelt secret is one.
                let text = unknown.nearest.as_deref().map_or(text, |near| names::masked(near, text));
                let near = unknown.nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                issues.refuse_because(&setting.key, text, &Place::Code, format!("{}{near}", unknown.reason));
            }
            None => issues.refuse_because(&setting.key, text, &Place::Code, "unknown property"),
        }
        self.settle(issues)
    }

    /// The values that hold for one service; ids compare without ASCII case and without a trailing dot.
    ///
    /// A service that no layer names gets the global values.
    ///
    /// ```
    /// use evenkeel::config::{LoadBalancerProperties, Properties};
    ///
    /// assert_eq!(Properties::default().effective("orders"), LoadBalancerProperties::default());
    /// ```
    pub fn effective(&self, service: &str) -> LoadBalancerProperties {
        self.effective_with(service, None)
    }

    /// The same with the defaults of a preset that an override names.
    pub(crate) fn effective_with(&self, service: &str, pinned: Option<Preset>) -> LoadBalancerProperties {
        let mut effective = crate::config::effective::of_service(self.layers(), service, pinned);
        if effective.subset.instance_id.is_none() {
            effective.subset.instance_id.clone_from(&self.identity.instance);
        }
        if effective.own_service_id.is_none() {
            effective.own_service_id.clone_from(&self.identity.application);
        }
        effective
    }

    /// The values that hold for the whole process.
    pub fn global(&self) -> GlobalProperties {
        crate::config::effective::of_process(self.layers())
    }

    /// The services that any layer configures: clients, eager load, simple instances; each in the spelling it was
    /// first written in, the file before the environment before the code.
    pub fn services(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let eager = [&self.file, &self.environment, &self.code].map(|layer| eager(layer));
        [&self.file, &self.environment, &self.code]
            .into_iter()
            .zip(eager)
            .flat_map(|(layer, eager)| layer.ids.iter().map(String::as_str).chain(eager))
            .filter(|id| seen.insert(key::fold(id)))
            .collect()
    }

    /// The instances written in the properties, by service, in the spelling of the service id.
    ///
    /// An entry that stands for no reachable instance (a port of 0 or none at all of uri and host) is left out with a
    /// warning.
    pub fn simple_instances(&self) -> &[(String, Vec<SimpleInstanceProperties>)] {
        &self.instances
    }

    /// What was read over: unknown keys, values without effect. Each was logged once as well.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The keys of Spring that were accepted and have no meaning here, each with the reason.
    pub fn ignored(&self) -> &[Warning] {
        &self.ignored
    }

    #[cfg(feature = "gateway")]
    fn same_gateway(&self, other: &Self) -> bool {
        self.gateway == other.gateway
    }

    #[cfg(not(feature = "gateway"))]
    #[allow(clippy::unused_self)] // as with the feature
    fn same_gateway(&self, _: &Self) -> bool {
        true
    }

    /// What is written of the gateway.
    #[cfg(feature = "gateway")]
    pub(crate) fn gateway(&self) -> &Subtree {
        &self.gateway
    }

    /// The layers, strongest first.
    pub(crate) fn layers(&self) -> [&Layer; 3] {
        [&self.code, &self.environment, &self.file]
    }

    /// Where the simple instances of a service are written.
    #[cfg(feature = "config")]
    pub(crate) fn place_of_instances(&self, service: &str) -> Option<&Place> {
        let owner = Owner::Instances(key::fold(service));
        let section = self.layers().into_iter().find_map(|layer| layer.sections.get(&owner))?;
        section.settings.values().next().map(|setting| &setting.place)
    }
}

/// Whether a key is one of the gateway, with its prefix.
#[cfg(feature = "gateway")]
fn is_gateways(path: &[Token]) -> bool {
    subtree::is_below(&subtree::GATEWAY, path)
}

#[cfg(not(feature = "gateway"))]
fn is_gateways(_: &[Token]) -> bool {
    false
}

fn eager(layer: &Layer) -> Vec<&str> {
    layer.sections.get(&Owner::Global).map(|section| section.words(EAGER)).unwrap_or_default()
}
