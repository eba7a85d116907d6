//! A route, understood.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::definition::{RouteDefinition, Step};
use super::filter::{Filter, ReadFilter, Retry};
use super::pattern::Variables;
use super::predicate::{Asked, Predicate, Read};
use super::settings::timeout;
use super::uri::{ALLOWED, Addresses, Upstream};
use crate::config::{Issues, Problem, uniform};

/// A route, understood.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) id: Arc<str>,
    pub(super) order: i32,
    pub(super) upstream: Upstream,
    predicates: Vec<Predicate>,
    /// The group whose traffic it shares, and its share.
    pub(super) weight: Option<(String, u32)>,
    pub(super) filters: Vec<Filter>,
    pub(super) preserve_host: bool,
    /// It answers by itself: the status, the address, and whether it takes the query along.
    pub(super) redirect: Option<(StatusCode, HeaderValue, bool)>,
    pub(super) retry: Option<Retry>,
    pub(super) response_timeout: Limit,
    pub(super) connect_timeout: Limit,
    /// What filters need of the request.
    pub(super) changes_target: bool,
    has_variables: bool,
}

/// A time limit of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// That of the gateway.
    Inherited,
    /// Its own; none at all switches that of the gateway off.
    Own(Option<Duration>),
}

impl Limit {
    /// What holds, where this is that of the gateway.
    pub(super) fn over(self, inherited: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Inherited => inherited,
            Self::Own(limit) => limit,
        }
    }
}

impl Route {
    /// Reads a route; nothing of it is used if anything is wrong. Whether its URI has a path, which is not used, comes with it.
    pub(super) fn read(
        definition: &RouteDefinition,
        defaults: &[Step],
        addresses: &mut Addresses,
        issues: &mut Issues,
    ) -> Option<(Self, bool)> {
        let before = issues.problems.len();
        let id = definition.id.as_str();
        let (mut predicates, mut weight) = (Vec::new(), None);
        for step in &definition.predicates {
            match Read::of(step) {
                Ok(Read::Predicate(predicate)) => predicates.push(predicate),
                Ok(Read::Weight { group, weight: share }) => weight = Some((group, share)),
                Err(fault) => issues.problems.push(fault.of(id, step)),
            }
        }
        let uri = &definition.uri;
        let upstream = Upstream::parse(&uri.text, addresses).map_err(|why| {
            let reason = format!("route {id:?}, uri: {why}");
            let (key, place, allowed) = (uri.key.clone(), uri.place.clone(), ALLOWED.to_owned());
            let value = crate::config::without_credentials(&uri.text).into_owned();
            issues.problems.push(Problem { key, value, place, reason, allowed });
        });
        let (upstream, with_path) = upstream.ok()?;
        let mut route = Self {
            id: id.into(),
            order: definition.order,
            upstream,
            predicates,
            weight,
            filters: Vec::new(),
            preserve_host: false,
            redirect: None,
            retry: None,
            response_timeout: Limit::Inherited,
            connect_timeout: Limit::Inherited,
            changes_target: false,
            has_variables: false,
        };
        route.read_filters(definition, defaults, issues);
        route.read_metadata(definition, issues);
        (issues.problems.len() == before).then_some((route, with_path))
    }

    /// The default filters and its own, turn by turn: the first of each, the second of each, and so on.
    fn read_filters(&mut self, definition: &RouteDefinition, defaults: &[Step], issues: &mut Issues) {
        let predicates = std::mem::take(&mut self.predicates);
        let names: Vec<&str> = predicates.iter().flat_map(Predicate::names).collect();
        let own = &definition.filters;
        let turns = (0..defaults.len().max(own.len())).flat_map(|at| [defaults.get(at), own.get(at)]);
        for step in turns.flatten() {
            match ReadFilter::of(step, &names) {
                Ok(ReadFilter::Filter(filter)) => self.filters.push(filter),
                Ok(ReadFilter::PreserveHost) => self.preserve_host = true,
                Ok(ReadFilter::Retry(retry)) => self.retry = Some(retry),
                Ok(ReadFilter::Redirect { status, url, with_query }) => {
                    self.redirect = Some((status, url, with_query));
                }
                Err(fault) => issues.problems.push(fault.of(&definition.id, step)),
            }
        }
        drop(names);
        self.predicates = predicates;
        self.changes_target = self.filters.iter().any(Filter::changes_target);
        self.has_variables = self.filters.iter().any(Filter::has_variables);
    }

    fn read_metadata(&mut self, definition: &RouteDefinition, issues: &mut Issues) {
        for (name, written) in &definition.metadata {
            let to = match uniform(name).as_str() {
                "responsetimeout" => &mut self.response_timeout,
                "connecttimeout" => &mut self.connect_timeout,
                _ => continue,
            };
            match timeout(&written.text) {
                Ok(limit) => *to = Limit::Own(limit),
                Err(allowed) => issues.problems.push(Problem {
                    key: written.key.clone(),
                    value: written.text.clone(),
                    place: written.place.clone(),
                    reason: format!("route {:?}: no time-out", definition.id),
                    allowed,
                }),
            }
        }
    }

    /// Whether all of its predicates hold, but for its weight.
    pub(super) fn holds(&self, asked: &Asked<'_>) -> bool {
        self.predicates.iter().all(|predicate| predicate.holds(asked))
    }

    /// The values of the variables that its filters use.
    pub(super) fn variables(&self, asked: &Asked<'_>) -> Variables {
        let mut found = Variables::new();
        if self.has_variables {
            for predicate in &self.predicates {
                predicate.variables(asked, &mut found);
            }
        }
        found
    }
}
