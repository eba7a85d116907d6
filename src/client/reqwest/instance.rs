//! The client of one instance.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::reqwest::redirect::Policy;
use ::reqwest::{Client, ClientBuilder, NoProxy, Proxy};
use arc_swap::ArcSwap;

use crate::ServiceInstance;
use crate::client::tls_name::tls_name;

/// How often a connection of HTTP/2 is asked for a sign of life when nothing else came.
///
/// With [`TIMEOUT`] a server that hangs or is cut off is noticed within half a minute, as reqwest's own limit for bytes that
/// nobody acknowledges (`TCP_USER_TIMEOUT`, 30 s) has it for hosts that are gone; and it is more often than routers between
/// them forget an idle connection, which none does within a minute.
const INTERVAL: Duration = Duration::from_secs(20);

/// How long the sign may take: many times the longest round trip, so that a busy server is not taken for a dead one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Every name and every address, for which a proxy is not used.
const NOBODY: &str = "*,0.0.0.0/0,::/0";

/// When a connection of HTTP/2 is asked for a sign of life, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepAlive {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { interval: INTERVAL, timeout: TIMEOUT }
    }
}

/// What the properties of a service and the entry of an instance say of its client, beside the connect time-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    read_timeout: Option<Duration>,
    /// The name that is verified, and the address that it stands for.
    name: Option<(SocketAddr, String)>,
}

impl Settings {
    pub(super) fn of(
        instance: &ServiceInstance,
        read_timeout: Option<Duration>,
        property: Option<&str>,
    ) -> Self {
        // Port 0 is the scheme's own. A name that is none is told by the call that needs it.
        let named = tls_name(instance, property).ok().flatten();
        let address = |ip| SocketAddr::new(ip, instance.port().unwrap_or_default());
        Self { read_timeout, name: named.map(|(ip, name)| (address(ip), name.into_owned())) }
    }

    /// The client; what is said here wins over what `builder` says.
    pub(super) fn build(
        &self,
        builder: ClientBuilder,
        connect_timeout: Duration,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Client, ::reqwest::Error> {
        // A proxy after those of `make`: with it the ones of the environment are not asked, and it never wants a call. One
        // that is a closure would cost two parsed URLs per call.
        let direct = Proxy::all("http://127.0.0.1:9")?.no_proxy(NoProxy::from_string(NOBODY));
        let mut builder = builder.redirect(Policy::none()).connect_timeout(connect_timeout).proxy(direct);
        if let Some(KeepAlive { interval, timeout }) = keep_alive {
            // Also while idle: else the next call would be the one that finds it dead.
            builder = builder
                .http2_keep_alive_interval(interval)
                .http2_keep_alive_timeout(timeout)
                .http2_keep_alive_while_idle(true);
        }
        if let Some(limit) = self.read_timeout {
            builder = builder.read_timeout(limit);
        }
        if let Some((address, name)) = &self.name {
            builder = builder.resolve(name, *address);
        }
        builder.build()
    }
}

/// A client that is made anew when its settings change.
#[derive(Clone, Debug)]
pub(super) struct Own(Arc<Made>);

#[derive(Debug)]
struct Made {
    connect_timeout: Duration,
    current: ArcSwap<(Settings, Client)>,
}

impl Own {
    pub(super) fn new(connect_timeout: Duration, settings: Settings, client: Client) -> Self {
        Self(Arc::new(Made { connect_timeout, current: ArcSwap::from_pointee((settings, client)) }))
    }

    /// The client for these settings; `make` gives one for the connect time-out.
    pub(super) fn client<E>(
        &self,
        settings: Settings,
        make: impl FnOnce(&Settings, Duration) -> Result<Client, E>,
    ) -> Result<Client, E> {
        let current = self.0.current.load();
        if current.0 == settings {
            return Ok(current.1.clone());
        }
        let client = make(&settings, self.0.connect_timeout)?;
        self.0.current.store(Arc::new((settings, client.clone())));
        Ok(client)
    }
}
