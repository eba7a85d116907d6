use std::error::Error;
use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::config::PreConnectionProperties;
use crate::{BoxFuture, InstanceState, ServiceInstance, Target};

/// Why a connection could not be opened.
pub(crate) type ConnectError = Box<dyn Error + Send + Sync>;

/// Opens a connection to an instance before it gets calls; see
/// [`PreConnectionProperties`](crate::config::PreConnectionProperties).
///
/// It should be one that calls will use, so it belongs into the pool of the client that sends them. Do not hold a
/// [`LoadBalancer`](crate::LoadBalancer) in it by more than a weak reference: the balancer that has it would never be dropped.
///
/// ```
/// use std::error::Error;
///
/// use evenkeel::{PreConnect, ServiceInstance, async_trait};
///
/// /// The pool of a database.
/// #[derive(Debug)]
/// struct Pool;
///
/// impl Pool {
///     async fn open(&self, _address: &str) -> Result<(), std::io::Error> {
///         Ok(())
///     }
/// }
///
/// #[async_trait]
/// impl PreConnect for Pool {
///     async fn connect(&self, instance: &ServiceInstance) -> Result<(), Box<dyn Error + Send + Sync>> {
///         Ok(self.open(&instance.authority()).await?)
///     }
/// }
/// ```
#[async_trait]
pub trait PreConnect: Send + Sync + fmt::Debug + 'static {
    /// `Ok` once a connection is open. The caller limits the time, catches a panic, tries again, and drops the future when
    /// nobody waits for it any more.
    ///
    /// # Errors
    /// Why there is none, in a few words: they stand in reports.
    async fn connect(&self, instance: &ServiceInstance) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// A client that can open a connection in its pool.
pub(crate) trait Opener: Send + Sync {
    /// What opens it; it holds neither the client nor a balancer. `None`: it does not call this instance.
    fn open(&self, state: &InstanceState, path: &str)
    -> Option<BoxFuture<'static, Result<(), ConnectError>>>;
}

/// The clients of balancers that can, as long as they live.
#[derive(Default)]
pub(crate) struct Openers(Mutex<Vec<Weak<dyn Opener>>>);

impl Openers {
    #[cfg(feature = "reqwest")]
    pub(crate) fn add(&self, opener: Weak<dyn Opener>) {
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(opener);
    }

    fn alive(&self) -> Vec<Arc<dyn Opener>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Openers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Openers({})", self.0.lock().len())
    }
}

/// What connects.
#[derive(Clone, Debug, Default)]
pub(in crate::balancer) enum Connector {
    /// TCP alone: the connection is closed again, but somebody listens.
    #[default]
    Tcp,
    /// The user's code.
    Code(Arc<dyn PreConnect>),
    /// Every client that can; TCP when there is none.
    Clients(Arc<Openers>),
}

impl Connector {
    /// One try.
    pub(super) async fn connect(&self, state: &InstanceState, path: &str) -> Result<(), ConnectError> {
        match self {
            Self::Tcp => tcp(&state.instance()).await,
            Self::Code(code) => code.connect(&state.instance()).await,
            Self::Clients(openers) => {
                // The clients themselves are held no longer than this: with one a balancer would live on.
                let open: Vec<_> = openers.alive().iter().filter_map(|one| one.open(state, path)).collect();
                if open.is_empty() {
                    return tcp(&state.instance()).await;
                }
                futures_util::future::try_join_all(open).await.map(drop)
            }
        }
    }
}

/// At the port of the instance, else at that of the scheme with which calls are sent there.
async fn tcp(instance: &ServiceInstance) -> Result<(), ConnectError> {
    match TcpStream::connect((instance.host(), port(instance)?)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.kind().to_string().into()),
    }
}

fn port(instance: &ServiceInstance) -> Result<u16, ConnectError> {
    match instance.port() {
        Some(port) => Ok(port),
        None => Target::of(instance, None, true)?.default_port().ok_or_else(|| NO_PORT.into()),
    }
}

/// Of an instance whose scheme is not known here.
const NO_PORT: &str = "it has no port, nor has its scheme";

/// What is to be connected, and by what.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreConnection {
    pub(crate) properties: PreConnectionProperties,
    pub(in crate::balancer) connector: Connector,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_instance_or_of_its_scheme() {
        let with = |scheme: Option<&str>, secure: Option<bool>, port: Option<u16>| {
            let mut instance = ServiceInstance::builder("a.test");
            if let Some(scheme) = scheme {
                instance = instance.scheme(scheme);
            }
            if let Some(secure) = secure {
                instance = instance.secure(secure);
            }
            if let Some(port) = port {
                instance = instance.port(port);
            }
            super::port(&instance.build().unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(with(None, None, None), Ok(80));
        assert_eq!(with(None, Some(true), None), Ok(443));
        assert_eq!(with(Some("https"), None, None), Ok(443));
        assert_eq!(with(Some("wss"), None, None), Ok(443));
        assert_eq!(with(Some("http"), Some(true), None), Ok(80));
        assert_eq!(with(Some("https"), None, Some(8443)), Ok(8443));
        assert_eq!(with(Some("mqtt"), None, None), Err(NO_PORT.to_owned()));
        assert_eq!(with(Some("mqtt"), None, Some(1883)), Ok(1883));
    }
}
