use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body::Body;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpListener;
use tower_service::Service;

use super::proxy::{BoxError, Dial, Front, GatewayBody, Known, Proxy, RequestBody, Table, Tunnels, handle};
use super::routes::Routes;
use super::serve::GatewayHandle;
use super::settings::GatewaySettings;
use crate::client::tower::Connector;
use crate::config::{ConfigError, Properties};
use crate::random::Random;
use crate::wall::WallClock;
use crate::{BoxFuture, LoadBalancers};

/// How long a connection to an instance is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);

/// A gateway over balancers; see the [module](super). Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    proxy: Arc<Proxy>,
}

/// Makes a [`Gateway`]; its methods have the defaults.
pub struct GatewayBuilder {
    balancers: LoadBalancers,
    routes: Routes,
    settings: GatewaySettings,
    seed: Option<u64>,
    http: legacy::Builder,
    http2_only: bool,
    dial: Dial,
}

impl Gateway {
    /// Starts a gateway whose services are those of these balancers.
    pub fn builder(balancers: LoadBalancers) -> GatewayBuilder {
        let mut http = legacy::Client::builder(TokioExecutor::new());
        http.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        GatewayBuilder {
            balancers,
            routes: Routes::default(),
            settings: GatewaySettings::default(),
            seed: None,
            http,
            http2_only: false,
            dial: Dial::default(),
        }
    }

    /// The routes in force.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.proxy.table.load().routes)
    }

    /// Puts other routes in force for the requests to come; those on their way go on, and connections are kept, as is what
    /// is known of instances and addresses.
    pub fn set_routes(&self, routes: Routes) {
        let before = self.proxy.table.load();
        let table = self.table(routes, before.settings().clone(), &before);
        self.proxy.table.store(Arc::new(table));
    }

    /// Puts the routes and settings of these properties in force, all of them or none.
    ///
    /// # Errors
    /// [`ConfigError`], with every problem; what was in force stays.
    pub fn reload(&self, properties: &Properties) -> Result<(), ConfigError> {
        let routes = Routes::from_properties(properties)?;
        let settings = GatewaySettings::from_properties(properties)?;
        let before = self.proxy.table.load();
        self.proxy.table.store(Arc::new(self.table(routes, settings, &before)));
        Ok(())
    }

    fn table(&self, routes: Routes, settings: GatewaySettings, before: &Table) -> Table {
        Table::new(Arc::new(routes), settings, &self.proxy.balancers, Some(before))
    }

    /// The balancers behind it.
    pub fn balancers(&self) -> &LoadBalancers {
        &self.proxy.balancers
    }

    /// Serves what connects to `listener`, by HTTP/1.1 and by HTTP/2 (with prior knowledge), on the runtime of the caller, until
    /// the handle is told to [shut down](GatewayHandle::shutdown), or dropped.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn serve(&self, listener: TcpListener) -> std::io::Result<GatewayHandle> {
        GatewayHandle::start(Arc::clone(&self.proxy), listener)
    }

    /// A service of tower, for a server of your own: `axum::Router::fallback_service` takes it. Put a [`PeerAddress`] into the
    /// extensions of requests, else nobody is told who the client is, and a [`PeerScheme`] if your server speaks TLS.
    pub fn into_service(self) -> GatewayService {
        GatewayService { proxy: self.proxy, tunnels: Arc::default() }
    }
}

impl GatewayBuilder {
    /// Sets the routes (default: none, and every request gets 404).
    #[must_use]
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Sets what holds for all routes (default: see [`GatewaySettings`]).
    #[must_use]
    pub fn settings(mut self, settings: GatewaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets both as properties say.
    ///
    /// # Errors
    /// [`ConfigError`], with every problem.
    pub fn properties(self, properties: &Properties) -> Result<Self, ConfigError> {
        let routes = Routes::from_properties(properties)?;
        Ok(self.routes(routes).settings(GatewaySettings::from_properties(properties)?))
    }

    /// Sets where the draws of weighted routes begin, for a test (default: chance).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets what makes connections to instances, such as a connector for TLS (default: TCP alone, so that `https` does not
    /// work).
    #[must_use]
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.dial = Dial::new(connector);
        self
    }

    /// Speaks HTTP/2 to instances from the first byte (default: off, HTTP/1.1 unless TLS negotiates otherwise). Websockets
    /// need HTTP/1.1.
    #[must_use]
    pub fn http2_only(mut self, yes: bool) -> Self {
        self.http.http2_only(yes);
        self.http2_only = yes;
        self
    }

    /// The gateway. Connections are made at the first requests.
    pub fn build(self) -> Gateway {
        let table = Table::new(Arc::new(self.routes), self.settings, &self.balancers, None);
        Gateway {
            proxy: Arc::new(Proxy {
                balancers: self.balancers,
                table: ArcSwap::from_pointee(table),
                random: Random::new(self.seed),
                clock: WallClock::default(),
                http: self.http,
                http2_only: self.http2_only,
                dial: self.dial,
            }),
        }
    }
}

/// The address of the client, in the extensions of a request that a [`GatewayService`] gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// Whether the client came by TLS, in the extensions of a request that a [`GatewayService`] gets (default: without). What the
/// request says of its scheme itself does not count, since the client writes it.
///
/// It goes into `X-Forwarded-Proto`, `X-Forwarded-Port` and `Forwarded`, and decides whether the cookie of a sticky session
/// is `Secure`.
///
/// ```
/// use evenkeel::gateway::{PeerAddress, PeerScheme};
///
/// # fn of(mut request: http::Request<()>, peer: std::net::SocketAddr) -> http::Request<()> {
/// // In a server that accepted the connection by TLS:
/// request.extensions_mut().insert(PeerAddress(peer));
/// request.extensions_mut().insert(PeerScheme::Https);
/// # request }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerScheme {
    /// Without TLS.
    #[default]
    Http,
    /// By TLS.
    Https,
}

/// What the server in front knows of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Option<SocketAddr>,
    pub(super) scheme: PeerScheme,
    pub(super) known: Known,
}

impl PeerScheme {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A [`Gateway`] as a service of tower: it is always ready, and never fails, since every refusal is an answer.
#[derive(Clone)]
pub struct GatewayService {
    proxy: Arc<Proxy>,
    tunnels: Arc<Tunnels>,
}

impl<B> Service<http::Request<B>> for GatewayService
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = http::Response<GatewayBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { proxy, tunnels } = self.clone();
        let extensions = request.extensions();
        let peer = Peer {
            address: extensions.get().map(|PeerAddress(address)| *address),
            scheme: extensions.get().copied().unwrap_or_default(),
            known: Known::default(),
        };
        let front = Arc::new(Front { proxy, tunnels, peer, tells: true });
        let answer = handle(front, request.map(RequestBody::of));
        Box::pin(async move { Ok(answer.await) })
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("routes", &self.routes()).finish_non_exhaustive()
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayBuilder")
            .field("routes", &self.routes)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GatewayService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayService").finish_non_exhaustive()
    }
}
