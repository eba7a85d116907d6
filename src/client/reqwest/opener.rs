//! Opens connections before traffic, in the pools that will carry it.

use std::error::Error;
use std::sync::{Arc, Weak};

use ::reqwest::{Proxy, Response, Url};

use super::client::Make;
use super::redirect;
use crate::balancer::{ConnectError, Opener};
use crate::client::pool::Pools;
use crate::{BoxFuture, InstanceState, LoadBalancer, LoadBalancers, ServiceInstance, Target};

/// As much of an answer is read, so that its connection goes back to the pool; one that is longer is not worth that.
const MOST: usize = 256 * 1024;

/// The clients per instance; held by those who call through them, and by nobody else.
pub(super) struct Instances {
    balancers: LoadBalancers,
    pools: Pools<::reqwest::Client>,
    make: Arc<Make>,
}

impl Instances {
    /// From now on new instances are connected through them, where properties say so.
    pub(super) fn registered(balancers: &LoadBalancers, make: Arc<Make>) -> Arc<Self> {
        let instances = Arc::new(Self { balancers: balancers.clone(), pools: Pools::default(), make });
        balancers.opened_by(Arc::downgrade(&instances) as Weak<dyn Opener>);
        instances
    }

    /// The client of an instance; made at its first call.
    pub(super) fn client(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        instance: &ServiceInstance,
    ) -> Result<::reqwest::Client, ::reqwest::Error> {
        self.pools.client(&self.balancers, balancer, state, |connect_timeout| {
            // A proxy after those of `make`: with it the ones of the environment are not asked, and it never wants a call.
            let direct = Proxy::custom(|_| None::<Url>);
            redirect::noted((self.make)(instance)).connect_timeout(connect_timeout).proxy(direct).build()
        })
    }

    fn prepare(
        &self,
        balancer: &LoadBalancer,
        state: &InstanceState,
        path: &str,
    ) -> Result<(::reqwest::Client, Url), ConnectError> {
        let instance = state.instance();
        // As for a request that asks for no scheme: `lb://`.
        let target = Target::of(&instance, None, false)?;
        let url = Url::parse(&target.url(path))?;
        Ok((self.client(balancer, state, &instance)?, url))
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
            match redirect::watch(client.get(url).send()).await {
                Ok(response) => {
                    read(response).await;
                    Ok(())
                }
                // It answered, and where it leads is no matter here.
                Err((_, true)) => Ok(()),
                Err((error, false)) => Err(innermost(&error).into()),
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
