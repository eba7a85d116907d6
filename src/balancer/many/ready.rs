use std::error::Error;
use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use super::LoadBalancers;

/// Some services had no instance to choose in time; it names each of them and says why.
#[derive(Debug)]
pub struct NotReady {
    missing: Vec<(String, String)>,
    limit: Duration,
}

impl NotReady {
    /// The services that are missing, each with the reason.
    pub fn missing(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.missing.iter().map(|(service, why)| (&**service, &**why))
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the services are not ready after {:.1} s",
            self.missing.len(),
            self.limit.as_secs_f64()
        )?;
        for (at, (service, why)) in self.missing.iter().enumerate() {
            write!(f, "{} {service}: {why}", if at == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl Error for NotReady {}

/// How often a service without an instance is looked at again; its own back-off decides how often it is looked up.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) async fn ready(
    balancers: &LoadBalancers,
    names: Vec<String>,
    limit: Duration,
) -> Result<(), NotReady> {
    let end = super::after(limit);
    let waits = names.iter().map(|name| one(balancers, name, end));
    let missing: Vec<_> = names
        .iter()
        .zip(join_all(waits).await)
        .filter_map(|(name, result)| result.err().map(|why| (name.clone(), why)))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(NotReady { missing, limit }) }
}

async fn one(balancers: &LoadBalancers, name: &str, end: Instant) -> Result<(), String> {
    let balancer = balancers.get(name).map_err(|error| error.to_string())?;
    loop {
        let why = match tokio::time::timeout_at(end, balancer.ready()).await {
            Ok(Ok(())) => match balancer.nothing_to_choose() {
                None => return Ok(()),
                Some(error) => error,
            },
            Ok(Err(error)) => error,
            Err(_) => {
                let last =
                    balancer.last_error().map_or_else(|| "no answer yet".to_owned(), |e| e.to_string());
                return Err(last);
            }
        };
        if balancer.is_closed() || Instant::now() + AGAIN >= end {
            return Err(why.to_string());
        }
        sleep_until(Instant::now() + AGAIN).await;
    }
}
