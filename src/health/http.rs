use async_trait::async_trait;
use reqwest::Url;
use reqwest::redirect::Policy;

use super::{HealthProbe, ProbeError, get};
use crate::{ServiceInstance, Target};

/// Alive is who answers a GET with status 200, or with one of those that are given.
///
/// Redirects are not followed, since they would have another server judged; no proxy is used. The connection goes to the
/// instance itself, never through a balancer. Each probe has one of its own, which is closed with it: there are never more
/// sockets than probes at the same time, and a server that takes no new connections is noticed. With TLS, or a
/// [client of your own](Self::with_client), it is the client who closes it, a moment later.
#[derive(Clone, Debug)]
pub struct HttpProbe {
    client: reqwest::Client,
    /// The client is the caller's, and may do what ours does not.
    own: bool,
    path: String,
    port: Option<u16>,
    alive: Vec<u16>,
}

impl HttpProbe {
    /// Asks `path`, which may hold a query (`/health?full`); a missing leading slash is added.
    ///
    /// # Errors
    /// When reqwest cannot make a client.
    pub fn new(path: impl Into<String>) -> Result<Self, reqwest::Error> {
        // A connection that is kept would be one for each instance, until the next round at least.
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { client, own: false, path: path.into(), port: None, alive: vec![200] })
    }

    /// With a client of your own, for its TLS; it should follow no redirects and keep no idle connections.
    #[must_use]
    pub fn with_client(mut self, client: reqwest::Client) -> Self {
        (self.client, self.own) = (client, true);
        self
    }

    /// Asks this port instead of the instance's own.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The statuses of who is alive (default: 200 alone, as in Spring).
    #[must_use]
    pub fn with_statuses(mut self, alive: impl IntoIterator<Item = u16>) -> Self {
        self.alive = alive.into_iter().collect();
        self
    }
}

#[async_trait]
impl HealthProbe for HttpProbe {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        let asked = match self.port {
            Some(port) => instance.to_builder().port(port).build(),
            None => Ok(instance.clone()),
        };
        let asked = asked.map_err(|error| ProbeError::new(error.to_string()))?;
        let target = Target::of(&asked, None, true).map_err(|error| ProbeError::new(error.to_string()))?;
        let url = target.url(&self.path);
        let status = if self.own || target.scheme() != "http" {
            // Dropped here, so that its connection is closed.
            self.client.get(url).send().await.map_err(|error| get::reason(&error))?.status().as_u16()
        } else {
            let url = Url::parse(&url).map_err(|error| ProbeError::new(error.to_string()))?;
            let path = url.query().map_or_else(|| url.path().into(), |q| format!("{}?{q}", url.path()));
            let address = (asked.host(), asked.port().unwrap_or(80));
            get::status(address, target.authority(), &path).await?
        };
        if self.alive.contains(&status) { Ok(()) } else { Err(ProbeError::new(format!("status {status}"))) }
    }
}
