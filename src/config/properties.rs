//! The layered set of all properties.

use super::address::{self, Owner, Prefix};
use super::balancer::{GlobalProperties, LoadBalancerProperties};
use super::environment;
use super::error::{ConfigError, Issues, Place, Warning};
use super::key::{self, Token};
use super::layer::{Found, Layer, Section, Setting};
use super::names::EAGER;
use super::simple::{self, SimpleInstanceProperties};
use std::collections::{BTreeMap, BTreeSet, HashSet};
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
    pub(crate) file: Layer,
    environment: Layer,
    code: Layer,
    /// The variables below our prefixes: which service one means can change with the other layers.
    variables: Vec<(String, String)>,
    /// What reading the file said, kept for when the other layers change.
    pub(crate) file_warnings: Vec<Warning>,
    warnings: Vec<Warning>,
    instances: Vec<(String, Vec<SimpleInstanceProperties>)>,
}

/// Equal are sets that say the same in each layer, wherever the lines stand.
impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.environment == other.environment && self.code == other.code
    }
}

impl Properties {
    /// Reads variables as the environment layer, in place of the one there was.
    ///
    /// Names are `EVENKEEL_` or `SPRING_CLOUD_LOADBALANCER_` and the property in upper case, its dots and dashes as
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
        self.keep_variables(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self.settle(Issues::default())
    }

    /// Keeps the variables below our prefixes; they are read when the set is settled.
    pub(crate) fn keep_variables(&mut self, variables: impl Iterator<Item = (String, String)>) {
        self.variables = variables.filter(|(name, _)| environment::is_ours(name)).collect();
    }

    /// Sets one property for all services, in code, over the value set before.
    ///
    /// The key is spelt as in a file, its prefix may be left out: `cache.ttl` is `evenkeel.cache.ttl`. A list is a
    /// comma list. An unknown key is an error here.
    pub fn set(self, key: &str, value: impl fmt::Display) -> Result<Self, ConfigError> {
        let mut path = Vec::new();
        key::split(key, 0, &mut path);
        if Prefix::strip(&path).is_none() {
            path.insert(0, Token::Name { text: Prefix::Evenkeel.as_str().to_owned(), node: 0 });
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
            Some((prefix, Ok(address))) => self.code.put(Found { address, prefix, setting }, &mut issues),
            Some((_, Err(unknown))) => {
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
        super::effective::of_service(self.layers(), service)
    }

    /// The values that hold for the whole process.
    pub fn global(&self) -> GlobalProperties {
        super::effective::of_process(self.layers())
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

    /// The layers, strongest first.
    fn layers(&self) -> [&Layer; 3] {
        [&self.code, &self.environment, &self.file]
    }

    /// Reads again what depends on more than one layer, and reports everything that is wrong.
    pub(crate) fn settle(mut self, mut issues: Issues) -> Result<Self, ConfigError> {
        let mut known: Vec<String> = Vec::new();
        for layer in [&self.file, &self.code] {
            known.extend(layer.ids.iter().cloned());
            known.extend(eager(layer).into_iter().map(str::to_owned));
            let hints =
                layer.sections.get(&Owner::Global).into_iter().flat_map(|section| section.settings.keys());
            known.extend(hints.filter_map(|name| name.strip_prefix("hint.")).map(str::to_owned));
        }
        self.environment = environment::read(&self.variables, &known, &mut issues);
        for layer in self.layers() {
            layer.check_routes(&mut issues);
        }
        self.instances = self.read_instances(&mut issues);
        if !issues.problems.is_empty() {
            return Err(ConfigError::new(issues.problems));
        }
        let mut warnings = self.file_warnings.clone();
        warnings.append(&mut issues.warnings);
        let told: HashSet<&Warning> = self.warnings.iter().collect();
        for warning in warnings.iter().filter(|warning| !told.contains(warning)) {
            tracing::warn!(key = %warning.key, %warning, "a property has no effect");
        }
        self.warnings = warnings;
        Ok(self)
    }

    fn read_instances(&self, issues: &mut Issues) -> Vec<(String, Vec<SimpleInstanceProperties>)> {
        let mut lists: BTreeMap<&Owner, &Section> = BTreeMap::new();
        for layer in self.layers() {
            for (owner, section) in &layer.sections {
                if matches!(owner, Owner::Instances(_)) {
                    lists.entry(owner).or_insert(section);
                }
            }
        }
        lists.into_values().map(|section| (section.id.clone(), simple::read(section, issues))).collect()
    }
}

fn eager(layer: &Layer) -> Vec<&str> {
    layer.sections.get(&Owner::Global).map(|section| section.words(EAGER)).unwrap_or_default()
}
