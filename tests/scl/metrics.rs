//! 3.24 Metrics: cases 301 to 310.
#![allow(clippy::float_cmp)] // gauges hold whole numbers

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use evenkeel::call::call;
use evenkeel::config::{LiveProperties, Properties, StatsProperties};
use evenkeel::observe::CallInfo;
use evenkeel::{Failure, LoadBalancer, Outcome, Request, RequestView, ServiceInstance};

use crate::support::*;

/// A request to `/test/42/test`, with a template or not.
struct Get {
    template: Option<&'static str>,
}

impl RequestView for Get {
    fn method(&self) -> Option<&str> {
        Some("GET")
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        Some("lb://orders/test/42/test?token=secret".into())
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        self.template.filter(|_| name == CallInfo::URL_TEMPLATE)
    }
}

const RAW: Get = Get { template: None };

const OF_A: &str =
    "serviceId=orders, serviceInstance.host=a.test, serviceInstance.instanceId=a, serviceInstance.port=8080";

fn active() -> String {
    format!("loadbalancer.requests.active{{{OF_A}}}")
}

fn success(outcome: &str, status: &str, method: &str, uri: &str) -> String {
    format!(
        "loadbalancer.requests.success{{method={method}, outcome={outcome}, {OF_A}, status={status}, uri={uri}}}"
    )
}

/// A balancer over `instances` that is measured, and the recorder of this thread.
struct Measured {
    recorder: Recorder,
    balancer: LoadBalancer,
}

impl Measured {
    fn new(instances: Vec<ServiceInstance>, stats: StatsProperties) -> Self {
        let base = evenkeel::supplier::FixedSupplier::new(orders(), instances);
        let chain = evenkeel::SupplierBuilder::new("orders").with_base(base).with_seed(7);
        let balancer = LoadBalancer::builder(chain.build().unwrap()).stats(stats).build();
        Self { recorder: Recorder::default(), balancer }
    }

    fn over(ids: &str) -> Self {
        Self::new(list(ids), on())
    }

    /// Spring's meters as they are now.
    fn meters(&self) -> Vec<String> {
        assert!(self.balancer.collector().publish());
        self.recorder.names("loadbalancer.")
    }

    /// One call that ends so.
    async fn call(&self, view: &Get, end: Outcome) {
        let request = Request::of(view);
        let send = |_: &evenkeel::Choice, _| {
            Some(async move {
                // A failure has no response.
                if let Outcome::Failure(_) = end { Err("no response") } else { Ok::<_, &str>(()) }
            })
        };
        if let Ok(answer) = call(&self.balancer, &request, |_| end, send).await {
            answer.lease.complete(end);
        }
    }
}

fn on() -> StatsProperties {
    StatsProperties::default().with_enabled(true)
}

#[tokio::test(start_paused = true)]
async fn scl_301_a_request_is_active_and_then_a_success_with_its_tags() {
    let measured = Measured::new(list("a"), on().with_include_path(true));
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    let (recorder, balancer) = (&measured.recorder, &measured.balancer);
    let request = Request::of(&RAW);
    let answered = call(
        balancer,
        &request,
        |_: Result<&(), &Infallible>| Outcome::Status(200),
        |_, _| {
            Some(async {
                tokio::time::sleep(Duration::from_millis(250)).await;
                Ok(())
            })
        },
    );
    let answer = answered.await.unwrap();
    balancer.collector().publish();
    assert_eq!(recorder.gauge(&active()), 1.0, "its body is not read yet");
    answer.lease.complete(Outcome::Status(200));
    let success = success("SUCCESS", "200", "GET", "/test/42/test");
    assert_eq!(measured.meters(), [active(), success.clone()]);
    assert_eq!(recorder.gauge(&active()), 0.0);
    let values = recorder.get(&success).values;
    assert!(values.len() == 1 && (values[0] - 0.25).abs() < 1e-6, "in seconds: {values:?}");
}

#[tokio::test(start_paused = true)]
async fn scl_302_no_raw_path_without_include_path() {
    let measured = Measured::over("a");
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    measured.call(&RAW, Outcome::Status(200)).await;
    assert_eq!(measured.meters(), [active(), success("SUCCESS", "200", "GET", "UNKNOWN")]);
}

#[tokio::test(start_paused = true)]
async fn scl_303_the_template_of_the_path_is_the_tag_and_the_set_of_tags_is_exact() {
    for stats in [on(), on().with_include_path(true)] {
        let measured = Measured::new(list("a"), stats);
        let _here = metrics::set_default_local_recorder(&measured.recorder);
        measured.call(&Get { template: Some("/test/{pathParam}/test") }, Outcome::Status(200)).await;
        assert_eq!(measured.meters(), [active(), success("SUCCESS", "200", "GET", "/test/{pathParam}/test")]);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_304_a_failure_has_its_kind_as_the_exception() {
    for (failure, word) in [
        (Failure::Other, "other"),
        (Failure::Connect, "connect"),
        (Failure::Timeout, "timeout"),
        (Failure::Reset, "reset"),
    ] {
        let retry = evenkeel::config::RetryProperties::default().with_enabled(false);
        let base = evenkeel::supplier::FixedSupplier::new(orders(), list("a"));
        let chain = evenkeel::SupplierBuilder::new("orders").with_base(base).build().unwrap();
        let balancer = LoadBalancer::builder(chain).stats(on()).retry(retry).build();
        let measured = Measured { recorder: Recorder::default(), balancer };
        let _here = metrics::set_default_local_recorder(&measured.recorder);
        measured.call(&Get { template: Some("/t") }, Outcome::Failure(failure)).await;
        let failed = format!("loadbalancer.requests.failed{{exception={word}, method=GET, {OF_A}, uri=/t}}");
        assert_eq!(measured.meters(), [active(), failed.clone()]);
        assert_eq!(measured.recorder.gauge(&active()), 0.0);
        assert_eq!(measured.recorder.get(&failed).values.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_305_a_discard_is_counted_and_nothing_else() {
    let measured = Measured::over("");
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    measured.call(&RAW, Outcome::Status(200)).await;
    let discard = "loadbalancer.requests.discard{method=GET, serviceId=orders, uri=UNKNOWN}";
    assert_eq!(measured.meters(), [discard]);
    assert_eq!(measured.recorder.count(discard), 1);
}

/// What has no start here is a lease from before attempts were measured.
#[tokio::test(start_paused = true)]
async fn scl_306_without_a_start_the_gauge_moves_and_no_time_is_recorded() {
    let live = LiveProperties::new(Properties::default());
    let registry = Live::new(list("a"));
    let balancers = evenkeel::LoadBalancers::builder(registry.source())
        .live(live.clone())
        .service("orders", |s| s)
        .build();
    let balancers = balancers.unwrap();
    let recorder = Recorder::default();
    let _here = metrics::set_default_local_recorder(&recorder);
    let orders = balancers.get("orders").unwrap();
    let lease = orders.choose(&Request::EMPTY).await.unwrap();
    assert!(balancers.collector().publish() && recorder.names("").is_empty(), "nothing is measured");
    live.replace(Properties::default().set("stats.enabled", true).unwrap());
    settle().await;
    balancers.collector().publish();
    assert_eq!(recorder.gauge(&active()), 1.0);
    lease.complete(Outcome::Status(200));
    balancers.collector().publish();
    assert_eq!(recorder.gauge(&active()), 0.0);
    assert_eq!(recorder.names("loadbalancer."), [active()]);
    // Off again: what goes on is not measured, and nothing is told any more.
    live.replace(Properties::default());
    settle().await;
    let asked = recorder.asked();
    orders.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
    balancers.collector().publish();
    assert_eq!(recorder.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn scl_307_what_nobody_knows_is_unknown() {
    let bare = ServiceInstance::builder("a.test").build().unwrap();
    let measured = Measured::new(vec![bare.clone()], on());
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    let lease = measured.balancer.choose(&Request::EMPTY).await.unwrap();
    lease.complete(Outcome::Success);
    let of = format!(
        "serviceId=orders, serviceInstance.host=a.test, serviceInstance.instanceId={}, serviceInstance.port=UNKNOWN",
        bare.id()
    );
    assert_eq!(
        measured.meters(),
        [
            format!("loadbalancer.requests.active{{{of}}}"),
            format!(
                "loadbalancer.requests.success{{method=UNKNOWN, outcome=UNKNOWN, {of}, status=UNKNOWN, uri=UNKNOWN}}"
            )
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn scl_308_a_response_without_a_status_counts_as_200() {
    let measured = Measured::over("a");
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    let answer = call(
        &measured.balancer,
        &Request::EMPTY,
        |_: Result<&(), &Infallible>| Outcome::Success,
        |_, _| Some(async { Ok(()) }),
    );
    answer.await.unwrap().lease.complete(Outcome::Success);
    assert_eq!(measured.meters(), [active(), success("SUCCESS", "200", "UNKNOWN", "UNKNOWN")]);
}

/// There is no null to fail at: a lease that is dropped, a recorder that is not there.
#[tokio::test(start_paused = true)]
async fn scl_309_nothing_fails_without_a_response_a_request_or_a_recorder() {
    let measured = Measured::over("a");
    measured.call(&RAW, Outcome::Status(200)).await;
    drop(measured.balancer.choose(&Request::EMPTY).await.unwrap());
    assert!(measured.balancer.collector().publish());
    assert!(measured.recorder.names("").is_empty());
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    drop(measured.balancer.choose(&Request::EMPTY).await.unwrap());
    let cancelled = format!("loadbalancer.requests.cancelled{{{OF_A}}}");
    assert_eq!(measured.meters(), [active(), cancelled.clone()]);
    assert_eq!(measured.recorder.count(&cancelled), 1, "what was published before went nowhere");
}

#[tokio::test(start_paused = true)]
async fn scl_310_the_outcome_is_the_class_of_the_status() {
    let measured = Measured::over("a");
    let _here = metrics::set_default_local_recorder(&measured.recorder);
    let rows = [
        (102, "INFORMATIONAL"),
        (204, "SUCCESS"),
        (302, "REDIRECTION"),
        (404, "CLIENT_ERROR"),
        (503, "SERVER_ERROR"),
        (700, "UNKNOWN"),
    ];
    for (status, _) in rows {
        measured.call(&RAW, Outcome::Status(status)).await;
    }
    measured.meters();
    for (status, class) in rows {
        let series = success(class, &status.to_string(), "GET", "UNKNOWN");
        assert_eq!(measured.recorder.get(&series).values.len(), 1, "a 5xx is a success too");
    }
    assert_eq!(measured.recorder.names("loadbalancer.requests.failed"), [] as [&str; 0]);
}
