use std::error::Error;

use async_trait::async_trait;
use reqwest::redirect::Policy;

use super::{HealthProbe, ProbeError};
use crate::{ServiceInstance, Target};

/// Alive is who answers a GET with status 200, or with one of those that are given.
///
/// Redirects are not followed, since they would have another server judged; no proxy is used. The connection goes to the
/// instance itself, never through a balancer.
#[derive(Clone, Debug)]
pub struct HttpProbe {
    client: reqwest::Client,
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
        let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy().build()?;
        Ok(Self { client, path: path.into(), port: None, alive: vec![200] })
    }

    /// With a client of your own, for its TLS; it should follow no redirects.
    #[must_use]
    pub fn with_client(mut self, client: reqwest::Client) -> Self {
        self.client = client;
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
        let response =
            self.client.get(target.url(&self.path)).send().await.map_err(|error| reason(&error))?;
        let status = response.status().as_u16();
        if self.alive.contains(&status) { Ok(()) } else { Err(ProbeError::new(format!("status {status}"))) }
    }
}

/// The innermost cause, without the address, so that the same fault of many instances is one text.
fn reason(error: &reqwest::Error) -> ProbeError {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<std::io::Error>() {
        Some(error) => ProbeError::new(error.kind().to_string()),
        None => ProbeError::new(cause.to_string()),
    }
}
