//! Routes as they are written, before anybody knows what their words mean.

use std::collections::BTreeMap;

use crate::config::Place;

/// A route as it is written: in code by this type, or as an entry of `routes` in a file.
///
/// ```
/// use evenkeel::gateway::{RouteDefinition, Routes};
///
/// # fn main() -> Result<(), evenkeel::config::ConfigError> {
/// let orders = RouteDefinition::new("orders", "lb://orders")
///     .with_predicate("Path=/api/orders/**")
///     .with_predicate("Method=GET,POST")
///     .with_filter("StripPrefix=1");
/// let routes = Routes::new([orders])?;
/// assert_eq!(routes.ids().collect::<Vec<_>>(), ["orders"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RouteDefinition {
    pub(super) id: String,
    pub(super) uri: Written,
    pub(super) order: i32,
    pub(super) predicates: Vec<Step>,
    pub(super) filters: Vec<Step>,
    pub(super) metadata: BTreeMap<String, Written>,
    /// Where it stands.
    pub(super) key: String,
    pub(super) place: Place,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) text: String,
}

/// A predicate or a filter: its name and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) args: Args,
}

/// The arguments of a step.
#[derive(Clone, Debug)]
pub(super) enum Args {
    /// `Path=/a,/b`: in order.
    Short(Vec<String>),
    /// `args:`, by their names; those within a map have dotted ones. A list is several values.
    Named(Vec<(String, Vec<String>)>),
}

impl RouteDefinition {
    /// A route to `uri`: `lb://service`, `lb:ws://service`, or an address such as `http://10.0.0.7:8080`. Its order is 0; without
    /// a predicate it takes every request.
    pub fn new(id: impl Into<String>, uri: impl Into<String>) -> Self {
        let id = id.into();
        let key = format!("route {id}");
        let uri = Written { key: format!("{key}: uri"), place: Place::Code, text: uri.into() };
        Self {
            id,
            uri,
            order: 0,
            predicates: Vec::new(),
            filters: Vec::new(),
            metadata: BTreeMap::new(),
            key,
            place: Place::Code,
        }
    }

    /// Sets its order (default 0): routes with a lower one are asked first, those of one order as they stand.
    #[must_use]
    pub fn with_order(mut self, order: i32) -> Self {
        self.order = order;
        self
    }

    /// One more predicate in the short notation, such as `Path=/orders/{id}`; all of them must hold.
    #[must_use]
    pub fn with_predicate(mut self, text: impl AsRef<str>) -> Self {
        let key = format!("{}: predicates[{}]", self.key, self.predicates.len());
        self.predicates.push(Step::short(text.as_ref(), key, Place::Code));
        self
    }

    /// One more filter in the short notation, such as `StripPrefix=1`; they run in order.
    #[must_use]
    pub fn with_filter(mut self, text: impl AsRef<str>) -> Self {
        let key = format!("{}: filters[{}]", self.key, self.filters.len());
        self.filters.push(Step::short(text.as_ref(), key, Place::Code));
        self
    }

    /// Sets one value of its metadata: `response-timeout` and `connect-timeout`, in milliseconds or as `5s`. Others mean nothing
    /// here.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        let key = format!("{}: metadata.{name}", self.key);
        self.metadata.insert(name, Written { key, place: Place::Code, text: value.into() });
        self
    }
}

impl Step {
    /// Reads `Name=first, second`: words between commas, without blanks around them.
    pub(super) fn short(text: &str, key: String, place: Place) -> Self {
        let (name, args) = text.split_once('=').unwrap_or((text, ""));
        let args = crate::config::comma_list(args).map(str::to_owned).collect();
        Self { key, place, name: name.trim().to_owned(), args: Args::Short(args) }
    }
}
