//! What a gateway does with one request.

mod addresses;
mod answer;
mod attempt;
mod body;
mod check;
mod dial;
mod forwarded;
mod headers;
mod sticky;
mod trouble;
mod tunnel;
mod view;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;

use super::filter::Draft;
use super::gateway::{Peer, PeerScheme};
use super::pattern::Variables;
use super::predicate::Asked;
use super::route::Route;
use super::routes::Routes;
use super::settings::GatewaySettings;
use super::uri::Upstream;
use crate::call::Answered;
use crate::choice::outcome_of;
use crate::client::Via;
use crate::client::pool::Pools;
use crate::client::returning::Returning;
use crate::client::tower::failure_of;
use crate::random::Random;
use crate::wall::WallClock;
use crate::{Failure, LoadBalancer, LoadBalancers, Outcome, TrackedBody};
use addresses::Addresses;
use attempt::Call;
use forwarded::Lines;
use trouble::{Refused, refused};

pub use body::GatewayBody;
pub(super) use body::{BoxError, RequestBody};
pub(super) use dial::Dial;
pub(super) use forwarded::Known;
pub(super) use tunnel::Tunnels;

/// The client of an instance.
type Wire = legacy::Client<Dial, Returning<RequestBody>>;

/// Those of many services.
type Clients = Arc<Pools<Arc<Wire>>>;

/// The parts of a gateway.
pub(super) struct Proxy {
    pub(super) balancers: LoadBalancers,
    pub(super) table: ArcSwap<Table>,
    pub(super) random: Random,
    pub(super) clock: WallClock,
    pub(super) http: legacy::Builder,
    /// Whether instances are spoken to by HTTP/2 from the first byte.
    pub(super) http2_only: bool,
    pub(super) dial: Dial,
}

/// What is replaced as a whole when properties change.
pub(super) struct Table {
    pub(super) routes: Arc<Routes>,
    settings: GatewaySettings,
    addresses: Addresses,
    /// The clients, by the connect time-out that they were made with.
    pools: Vec<(Option<Duration>, Clients)>,
}

impl Table {
    /// A table that keeps the connections of the one before, and what is known of its addresses.
    pub(super) fn new(
        routes: Arc<Routes>,
        settings: GatewaySettings,
        balancers: &LoadBalancers,
        before: Option<&Self>,
    ) -> Self {
        let mut pools: Vec<(Option<Duration>, Clients)> = Vec::new();
        for limit in routes.all().map(|route| connect_timeout(route, &settings)) {
            if !pools.iter().any(|(there, _)| *there == limit) {
                let kept = before.and_then(|before| before.pools(limit)).cloned().unwrap_or_default();
                pools.push((limit, kept));
            }
        }
        let none = Addresses::default();
        let known = before.map_or(&none, |before| &before.addresses);
        let addresses = Addresses::new(&routes, balancers, known);
        Self { routes, settings, addresses, pools }
    }

    fn pools(&self, limit: Option<Duration>) -> Option<&Clients> {
        self.pools.iter().find(|(there, _)| *there == limit).map(|(_, pools)| pools)
    }

    pub(super) fn settings(&self) -> &GatewaySettings {
        &self.settings
    }
}

fn connect_timeout(route: &Route, settings: &GatewaySettings) -> Option<Duration> {
    route.connect_timeout.over(settings.connect_timeout)
}

/// Where a request goes on to, beside its method and headers.
struct Onward {
    target: Uri,
    variables: Variables,
    websocket: Option<OnUpgrade>,
    /// Whether the client came by TLS.
    secure: bool,
}

/// What answers the requests of a connection.
pub(super) struct Front {
    pub(super) proxy: Arc<Proxy>,
    pub(super) tunnels: Arc<Tunnels>,
    pub(super) peer: Peer,
    /// Whether somebody may want to know which instance answered: a server of the gateway's own does not.
    pub(super) tells: bool,
}

/// Answers a request; every refusal is an answer too.
pub(super) fn handle(
    front: Arc<Front>,
    request: Request<RequestBody>,
) -> impl Future<Output = Response<GatewayBody>> + Send {
    let (mut parts, body) = request.into_parts();
    async move {
        match front.exchange(&mut parts, body).await {
            Ok(response) => response,
            Err(refused) => {
                if let Some(error) = &refused.error {
                    let (status, route) = (refused.status.as_u16(), &*refused.route);
                    tracing::debug!(route, status, error, "a request through the gateway came to nothing");
                }
                answer::refusal(refused.status, parts.uri.path(), &front.proxy.clock)
            }
        }
    }
}

impl Front {
    async fn exchange(&self, parts: &mut Parts, body: RequestBody) -> Result<Response<GatewayBody>, Refused> {
        let Self { proxy, tunnels, peer, .. } = self;
        let table = proxy.table.load_full();
        let lines = peer.known.lines(peer.address, peer.scheme.as_str(), check::host(parts)?);
        let asked = Asked {
            method: &parts.method,
            path: parts.uri.path(),
            query: parts.uri.query(),
            headers: &parts.headers,
            host: lines.host(),
            peer: peer.address.map(|address| address.ip().to_canonical()),
        };
        let Some(route) = table.routes.find(&asked, &proxy.random) else {
            return Err(StatusCode::NOT_FOUND.into());
        };
        if let Some((status, url, with_query)) = &route.redirect {
            return Ok(answer::redirection(*status, url, parts.uri.query().filter(|_| *with_query)));
        }
        let variables = route.variables(&asked);
        let onward = onward(route, &table.settings, parts, (&lines, peer), variables)?;
        let Aimed { balancer, name, scheme } = proxy.upstream(&table, route)?;
        let limit = connect_timeout(route, &table.settings);
        let Some(pools) = table.pools(limit) else { return Err(StatusCode::NOT_FOUND.into()) };
        let call = Call {
            balancers: &proxy.balancers,
            balancer: &balancer,
            name: name.unwrap_or(balancer.service_id().as_str()),
            pools,
            http: &proxy.http,
            http2_only: proxy.http2_only,
            dial: &proxy.dial,
            parts,
            target: &onward.target,
            scheme,
            route: &route.id,
            retry: route.retry.as_ref(),
            response_timeout: route.response_timeout.over(table.settings.response_timeout),
            connect_timeout: limit,
        };
        let body = if onward.websocket.is_some() { RequestBody::Empty } else { body };
        let answered =
            call.send(body).await.map_err(|error| refused(route, &error, table.settings.use404))?;
        let via = self.tells.then(|| Via::new(answered.instance.clone(), answered.attempts));
        let mut response = respond(route, &balancer, parts, onward, answered, tunnels)?;
        if let Some(via) = via {
            response.extensions_mut().insert(via);
        }
        Ok(response)
    }
}

impl Proxy {
    fn upstream<'a>(&self, table: &Table, route: &'a Route) -> Result<Aimed<'a>, Refused> {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        match &route.upstream {
            Upstream::Service { service, scheme } => match self.balancers.get(service.as_str()) {
                Ok(balancer) => Ok(Aimed { balancer, name: None, scheme }),
                Err(error) => Err(Refused::new(unavailable, route, &error)),
            },
            Upstream::Address { address, scheme } => {
                let balancer = table.addresses.balancer(address, &self.balancers);
                let balancer = balancer.ok_or(Refused::from(unavailable))?;
                Ok(Aimed { balancer, name: Some(address.instance.id()), scheme })
            }
        }
    }
}

/// Where a route leads.
struct Aimed<'a> {
    balancer: LoadBalancer,
    /// In place of the service in URLs: host and port of an address.
    name: Option<&'a str>,
    scheme: &'static str,
}

/// The request as it is to be sent: filters, headers of the connection, `X-Forwarded-*`, the host.
fn onward(
    route: &Route,
    settings: &GatewaySettings,
    parts: &mut Parts,
    (lines, peer): (&Lines, &Peer),
    variables: Variables,
) -> Result<Onward, Refused> {
    let unfit = |_| Refused::from(StatusCode::BAD_REQUEST);
    let asks = headers::asks_for_websocket(&parts.method, parts.version, &parts.headers);
    if asks && headers::announce_body(&parts.headers) {
        return Err(StatusCode::BAD_REQUEST.into());
    }
    let websocket = if asks { parts.extensions.remove::<OnUpgrade>() } else { None };
    headers::strip_request(&mut parts.headers);
    headers::join_cookies(&mut parts.headers);
    parts.headers.remove(HOST);
    if route.preserve_host
        && let Ok(host) = HeaderValue::from_str(lines.host())
    {
        parts.headers.insert(HOST, host);
    }
    let mut draft = Draft::default();
    if route.changes_target {
        parts.uri.path().clone_into(&mut draft.path);
        draft.query = parts.uri.query().map(str::to_owned);
    }
    for filter in &route.filters {
        filter.request(&mut draft, &mut parts.headers, &variables).map_err(unfit)?;
    }
    let target = if route.changes_target {
        draft.target().map_err(unfit)?
    } else {
        parts.uri.path_and_query().cloned()
    };
    let target = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    // What the client wrote was looked at; a variable or a cut can make dots of it again.
    if route.changes_target && check::leads_out(target.path()) {
        return Err(StatusCode::BAD_REQUEST.into());
    }
    let trusted = forwarded::is_trusted(settings, peer.address);
    let first =
        |value: &HeaderValue| value.to_str().is_ok_and(|value| value.split(',').next() == Some("https"));
    // Not that of the request's target: the client writes it.
    let secure = peer.scheme == PeerScheme::Https
        || (trusted && parts.headers.get(forwarded::PROTO).is_some_and(first));
    forwarded::add(settings, trusted, lines, (parts.uri.path(), target.path()), &mut parts.headers);
    if websocket.is_some() {
        headers::ask_for_websocket(&mut parts.headers);
    }
    Ok(Onward { target, variables, websocket, secure })
}

/// The answer of an instance, for the client.
fn respond(
    route: &Route,
    balancer: &LoadBalancer,
    parts: &Parts,
    mut onward: Onward,
    answered: Answered<Response<Incoming>>,
    tunnels: &Arc<Tunnels>,
) -> Result<Response<GatewayBody>, Refused> {
    let Answered { mut response, mut lease, instance, .. } = answered;
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let upgrades = switched.then(|| (onward.websocket.take(), hyper::upgrade::on(&mut response)));
    let (mut head, body) = response.into_parts();
    lease.hear(&head.headers);
    let outcome = outcome_of(head.status, &head.headers);
    headers::strip(&mut head.headers);
    let body = match upgrades {
        None => GatewayBody::instance(TrackedBody::new(body, lease, outcome, |error| failure_of(error))),
        Some((Some(client), instance)) => {
            headers::ask_for_websocket(&mut head.headers);
            tunnels.run(client, instance, lease);
            GatewayBody::text("")
        }
        // Another protocol, for which nobody asked.
        Some((None, _)) => {
            lease.complete(Outcome::Failure(Failure::Other));
            return Err(StatusCode::BAD_GATEWAY.into());
        }
    };
    if let Some(sticky) = &balancer.calls().instance_cookie {
        sticky::set(sticky, (parts, &onward), &instance, &mut head.headers);
    }
    for filter in &route.filters {
        // A value of the request that no header can hold was refused on its way in, and is left out on the way back.
        let _ = filter.response(&mut head.status, &mut head.headers, &onward.variables);
    }
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(response)
}
