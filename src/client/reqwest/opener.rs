//! Opens connections before traffic, in the pools that will carry it.

use std::error::Error;
use std::sync::{Arc, Weak};

use ::reqwest::{Response, Url};

use super::client::Make;
use super::instance::{Current, KeepAlive, Own, Settings, named};
use crate::balancer::{CallSettings, ConnectError, Opener};
use crate::client::pool::Pools;
use crate::{BoxFuture, InstanceState, LoadBalancer, LoadBalancers, ServiceInstance, Target};

/// As much of an answer is read, so that its connection goes back to the pool; one that is longer is not worth that.
const MOST: usize = 256 * 1024;

/// The clients per instance; held by those who call through them, and by nobody else.
pub(super) struct Instances {
    balancers: LoadBalancers,
    pools: Pools<Own>,
    make: Arc<Make>,
    keep_alive: Option<KeepAlive>,
}

impl Instances {
    /// From now on new instances are connected through them, where properties say so.
    pub(super) fn registered(
        balancers: &LoadBalancers,
        make: Arc<Make>,
        keep_alive: Option<KeepAlive>,
    ) -> Arc<Self> {
        let instances =
            Arc::new(Self { balancers: balancers.clone(), pools: Pools::default(), make, keep_alive });
        balancers.opened_by(Arc::downgrade(&instances) as Weak<dyn Opener>);
        instances
    }

    /// Others with another keep-alive, which share no connections with these.
    pub(super) fn kept_alive(&self, keep_alive: Option<KeepAlive>) -> Arc<Self> {
        Self::registered(&self.balancers, Arc::clone(&self.make), keep_alive)
    }

    /// The client of an instance; made at its first call.
    pub(super) fn client(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        instance: &ServiceInstance,
        calls: &Arc<CallSettings>,
    ) -> Result<Arc<Current>, ::reqwest::Error> {
        let make = |settings: &Settings, connect_timeout| {
            settings.build((self.make)(instance), connect_timeout, self.keep_alive)
        };
        let own = self.pools.client(&self.balancers, balancer, state, |connect_timeout| {
            Own::new(instance, calls, connect_timeout, make)
        })?;
        own.current(instance, calls, make)
    }

    fn prepare(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        path: &str,
    ) -> Result<(::reqwest::Client, Url), ConnectError> {
        let (instance, calls) = (state.instance(), balancer.calls());
        // As for a request that asks for no scheme: `lb://`.
        let target = Target::of(&instance, None, false)?;
        let target = named(target, &instance, &calls).map_err(|error| error.to_string())?;
        let url = Url::parse(&target.url(path))?;
        Ok((self.client(balancer, state, &instance, &calls)?.client.clone(), url))
    }
}

impl Opener for Instances {
    fn open(
        &self,
        state: &InstanceState,
        path: &str,
    ) -> Option<BoxFuture<'static, Result<(), ConnectError>>> {
        let prepared = self.prepare(&self.balancers.balancer_of(state)?, state, path);
        Some(Box::pin(async move {
            let (client, url) = prepared?;
            match client.get(url).send().await {
                Ok(response) => {
                    read(response).await;
                    Ok(())
                }
                Err(error) => Err(innermost(&error).into()),
            }
        }))
    }
}

/// Reads an answer, so that its connection can be used again. Any answer shows that there is one, also one that breaks off.
async fn read(mut response: Response) {
    let mut left = MOST;
    while let Ok(Some(chunk)) = response.chunk().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            return;
        }
    }
}

/// What it was at last: "connection refused", and not the URL, which everybody knows.
fn innermost(error: &::reqwest::Error) -> String {
    let mut at: &dyn Error = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}
