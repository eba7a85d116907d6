//! The client of one instance.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::reqwest::redirect::Policy;
use ::reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url};
use arc_swap::ArcSwap;

use crate::balancer::CallSettings;
use crate::client::tls_name::{NameError, tls_name};
use crate::{ServiceInstance, Target};

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

/// The client of an instance, made anew when its settings change.
#[derive(Clone, Debug)]
pub(super) struct Own(Arc<Made>);

#[derive(Debug)]
struct Made {
    connect_timeout: Duration,
    current: ArcSwap<Current>,
}

/// A client for an instance, by its entry and the properties of its service as they were.
#[derive(Debug)]
pub(super) struct Current {
    instance: ServiceInstance,
    calls: Arc<CallSettings>,
    settings: Settings,
    pub(super) client: Client,
    /// Its address by each scheme; `None` if that has no URL.
    http: OnceLock<Option<Url>>,
    https: OnceLock<Option<Url>>,
}

impl Current {
    fn new(
        instance: &ServiceInstance,
        calls: &Arc<CallSettings>,
        settings: Settings,
        client: Client,
    ) -> Self {
        Self {
            instance: instance.clone(),
            calls: Arc::clone(calls),
            settings,
            client,
            http: OnceLock::new(),
            https: OnceLock::new(),
        }
    }

    /// The URL of a request here: path and query of the logical one. It is what the text of the whole URL would be parsed to,
    /// at a third of the cost. `None` if somebody has to say what is wrong with it.
    pub(super) fn aim(&self, scheme: &str, logical: &Url) -> Option<Url> {
        let known = match scheme {
            "http" => &self.http,
            "https" => &self.https,
            _ => return None,
        };
        let mut url = known.get_or_init(|| self.address(scheme)).clone()?;
        url.set_path(logical.path());
        url.set_query(logical.query());
        Some(url)
    }

    fn address(&self, scheme: &str) -> Option<Url> {
        // Whoever asks for this scheme was allowed to.
        let target = Target::of(&self.instance, Some(scheme), true).ok()?;
        if target.scheme() != scheme {
            return None;
        }
        Url::parse(&named(target, &self.instance, &self.calls).ok()?.url("/")).ok()
    }
}

/// The target, by the name that its certificate is verified for, if it is another than its host.
pub(super) fn named(
    target: Target,
    instance: &ServiceInstance,
    calls: &CallSettings,
) -> Result<Target, NameError> {
    if target.scheme() != "https" {
        return Ok(target);
    }
    Ok(match tls_name(instance, calls.tls_name.as_deref())? {
        Some((_, name)) => target.with_host(&name),
        None => target,
    })
}

impl Own {
    pub(super) fn new<E>(
        instance: &ServiceInstance,
        calls: &Arc<CallSettings>,
        connect_timeout: Duration,
        make: impl FnOnce(&Settings, Duration) -> Result<Client, E>,
    ) -> Result<Self, E> {
        let settings = Settings::of(instance, calls.read_timeout, calls.tls_name.as_deref());
        let client = make(&settings, connect_timeout)?;
        let current = ArcSwap::from_pointee(Current::new(instance, calls, settings, client));
        Ok(Self(Arc::new(Made { connect_timeout, current })))
    }

    /// The client for an instance and properties as they are; `make` gives another one for the connect time-out.
    pub(super) fn current<E>(
        &self,
        instance: &ServiceInstance,
        calls: &Arc<CallSettings>,
        make: impl FnOnce(&Settings, Duration) -> Result<Client, E>,
    ) -> Result<Arc<Current>, E> {
        let current = self.0.current.load();
        if current.instance.is_same_entry(instance) && Arc::ptr_eq(&current.calls, calls) {
            return Ok(Arc::clone(&current));
        }
        let settings = Settings::of(instance, calls.read_timeout, calls.tls_name.as_deref());
        let client = if current.settings == settings {
            current.client.clone()
        } else {
            make(&settings, self.0.connect_timeout)?
        };
        let next = Arc::new(Current::new(instance, calls, settings, client));
        self.0.current.store(Arc::clone(&next));
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn current(host: &str) -> (Current, ServiceInstance) {
        let instance = ServiceInstance::new(host, 8080).unwrap();
        let (calls, client) = (Arc::default(), Client::builder().build().unwrap());
        let settings = Settings::of(&instance, None, None);
        (Current::new(&instance, &calls, settings, client), instance)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Whatever a URL holds: what it is aimed at is what its text would be.
        #[test]
        fn a_url_is_aimed_as_if_its_text_were_read_anew(
            scheme in "(lb|http|https)",
            rest in "(/|/?[ -~äß%.'\\\\]{0,12}){0,4}(\\?[ -~ä%']{0,12})?(#[ -~]{0,4})?",
            at in 0_usize..2,
        ) {
            let Ok(logical) = Url::parse(&format!("{scheme}://me@orders{rest}")) else { return Ok(()) };
            prop_assume!(logical.host_str() == Some("orders"));
            let (current, instance) = current(["10.0.0.1", "::1"][at]);
            let target = Target::of(&instance, Some(logical.scheme()), false).unwrap();
            let aimed = current.aim(target.scheme(), &logical);
            prop_assert_eq!(aimed, Url::parse(&target.rewrite(logical.as_str())).ok());
        }
    }
}
