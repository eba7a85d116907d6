//! The table of routes, and which of them takes a request.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::definition::{RouteDefinition, Step};
use super::predicate::Asked;
use super::route::Route;
use super::settings::Definitions;
use super::uri::Addresses;
use crate::config::{ConfigError, Issues, Place, Properties, Warning};
use crate::random::{Random, below};

/// A table of routes, complete: one that has anything wrong is not made.
///
/// A request goes to the first route whose predicates hold, by their `order` and then by their place. Routes with the
/// predicate `Weight` of one group share the requests that their other predicates hold for.
///
/// ```
/// use evenkeel::config::{Format, Properties};
/// use evenkeel::gateway::Routes;
///
/// # fn main() -> Result<(), evenkeel::config::ConfigError> {
/// let yaml = "
/// spring.cloud.gateway.routes:
///   - id: orders
///     uri: lb://orders
///     predicates:
///       - Path=/api/orders/**
///     filters:
///       - RewritePath=/api/(?<rest>.*), /$\\{rest}
/// ";
/// let routes = Routes::from_properties(&Properties::parse(yaml, Format::Yaml, "application.yml")?)?;
/// assert_eq!(routes.ids().collect::<Vec<_>>(), ["orders"]);
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Routes {
    /// In the order in which they are asked.
    ordered: Vec<Arc<Route>>,
    /// The routes of each group, by their places, and the sum of their weights.
    groups: Vec<Group>,
    notes: Vec<Warning>,
}

struct Group {
    members: Vec<usize>,
}

impl Routes {
    /// Routes that are written in code.
    ///
    /// # Errors
    /// [`ConfigError`], with every problem: each names the route, the key and the value, and says what is allowed.
    pub fn new(routes: impl IntoIterator<Item = RouteDefinition>) -> Result<Self, ConfigError> {
        Self::with_default_filters(routes, std::iter::empty::<&str>())
    }

    /// The same with filters for all routes, in the short notation: the first of them runs before the first filter of a
    /// route, the second before its second, and so on, as in Spring.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_default_filters(
        routes: impl IntoIterator<Item = RouteDefinition>,
        filters: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        let filter = |(at, text): (usize, _)| {
            let text: &dyn AsRef<str> = &text;
            Step::short(text.as_ref(), format!("default-filters[{at}]"), Place::Code)
        };
        let definitions = Definitions {
            routes: routes.into_iter().collect(),
            default_filters: filters.into_iter().enumerate().map(|(at, text)| filter((at, text))).collect(),
            notes: Vec::new(),
        };
        Self::of(definitions, Issues::default())
    }

    /// The routes of `evenkeel.gateway.routes`, else of `spring.cloud.gateway.server.webflux.routes`, else of
    /// `spring.cloud.gateway.routes`, with the `default-filters` beside them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_properties(properties: &Properties) -> Result<Self, ConfigError> {
        let mut issues = Issues::default();
        let definitions = Definitions::read(properties, &mut issues);
        Self::of(definitions, issues)
    }

    fn of(definitions: Definitions, mut issues: Issues) -> Result<Self, ConfigError> {
        let Definitions { routes: written, default_filters, mut notes } = definitions;
        let (mut routes, mut addresses, mut ids) = (Vec::new(), Addresses::default(), HashSet::new());
        for definition in written {
            let (id, key, place) = (definition.id.clone(), definition.key.clone(), definition.place.clone());
            if id.trim().is_empty() || !ids.insert(id.clone()) {
                let reason = "the id of a route is blank, or that of another one";
                issues.refuse_because(&key, &id, &place, reason);
                continue;
            }
            let uri = (definition.uri.key.clone(), definition.uri.place.clone());
            if let Some((route, with_path)) =
                Route::read(&definition, &default_filters, &mut addresses, &mut issues)
            {
                if with_path {
                    let reason =
                        "the path of the uri is not used, as in Spring: the filter PrefixPath or SetPath is";
                    let (key, place) = uri;
                    notes.push(Warning {
                        key,
                        place,
                        nearest: None,
                        reason: reason.to_owned(),
                        accepted: true,
                    });
                }
                routes.push(Arc::new(route));
            }
        }
        if !issues.problems.is_empty() {
            return Err(ConfigError::new(issues.problems));
        }
        routes.sort_by_key(|route| route.order);
        let mut groups: Vec<(String, Group)> = Vec::new();
        for (at, route) in routes.iter().enumerate() {
            let Some((name, _)) = &route.weight else { continue };
            match groups.iter_mut().find(|(there, _)| there == name) {
                Some((_, group)) => group.members.push(at),
                None => groups.push((name.clone(), Group { members: vec![at] })),
            }
        }
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Self { ordered: routes, groups, notes })
    }

    /// The ids of the routes, in the order in which they are asked.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ordered.iter().map(|route| &*route.id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.ordered.iter()
    }

    /// What was read over: keys of Spring's gateway that are not read here, routes that are switched off, paths of URIs.
    pub fn notes(&self) -> &[Warning] {
        &self.notes
    }

    /// The route that takes a request.
    pub(super) fn find(&self, asked: &Asked<'_>, random: &Random) -> Option<&Arc<Route>> {
        // Who was drawn in groups that were met; most tables have none.
        let mut drawn: Vec<(usize, Option<usize>)> = Vec::new();
        for (at, route) in self.ordered.iter().enumerate() {
            if !route.holds(asked) {
                continue;
            }
            if route.weight.is_none() {
                return Some(route);
            }
            let Some(group) = self.groups.iter().position(|group| group.members.contains(&at)) else {
                continue;
            };
            if !drawn.iter().any(|(there, _)| *there == group) {
                drawn.push((group, self.draw(&self.groups[group], asked, random)));
            }
            if drawn.contains(&(group, Some(at))) {
                return Some(route);
            }
        }
        None
    }

    /// Draws among the routes of a group that hold, by their weights; nobody if all of these are 0.
    fn draw(&self, group: &Group, asked: &Asked<'_>, random: &Random) -> Option<usize> {
        let weight = |at: &usize| self.ordered[*at].weight.as_ref().map_or(0, |(_, weight)| *weight as usize);
        let holding = || group.members.iter().filter(|at| self.ordered[**at].holds(asked));
        let sum: usize = holding().map(weight).sum();
        if sum == 0 {
            return None;
        }
        let mut left = below(random.next(), sum);
        for at in holding() {
            match left.checked_sub(weight(at)) {
                Some(rest) => left = rest,
                None => return Some(*at),
            }
        }
        None
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.ordered).finish()
    }
}
