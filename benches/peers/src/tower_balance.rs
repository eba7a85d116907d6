//! `tower::balance` over services that answer at once: `poll_ready`, `call`, and its future to the end.

use std::convert::Infallible;
use std::future::Ready;
use std::hint::black_box;
use std::time::Duration;

use futures_util::FutureExt;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, Load, PeakEwma, PendingRequests};
use tower::{Service, ServiceExt};

type Done = Ready<Result<(), Infallible>>;

pub fn pending(n: usize) -> impl FnMut(usize) {
    calls((0..n).map(|_| PendingRequests::new(service(), CompleteOnResponse::default())).collect())
}

/// With the round-trip time and decay of `linkerd2-proxy`.
pub fn peak_ewma(n: usize) -> impl FnMut(usize) {
    let (rtt, decay) = (Duration::from_millis(30), Duration::from_secs(10));
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let decay = decay.as_nanos() as f64;
    calls((0..n).map(|_| PeakEwma::new(service(), rtt, decay, CompleteOnResponse::default())).collect())
}

fn service() -> impl Service<(), Response = (), Error = Infallible, Future = Done> {
    tower::service_fn(|()| std::future::ready(Ok(())))
}

fn calls<S>(services: Vec<S>) -> impl FnMut(usize)
where
    S: Service<(), Response = (), Error = Infallible> + Load,
    S::Metric: std::fmt::Debug,
{
    let mut balance = Balance::new(ServiceList::new(services));
    move |count| {
        for _ in 0..count {
            let answer = balance
                .ready()
                .now_or_never()
                .and_then(Result::ok)
                .and_then(|balance| balance.call(()).now_or_never());
            assert!(black_box(answer).is_some_and(|answer| answer.is_ok()));
        }
    }
}
