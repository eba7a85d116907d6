//! Each event of the guide's table is produced, and has the level and the fields that stand there.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::call::{Failback, Failsafe, call};
use evenkeel::config::{
    CacheProperties, Format, LiveProperties, Override, Properties, RetryBudgetProperties, RetryProperties,
    Staleness, StatsProperties, ZoneMode,
};
use evenkeel::discovery::{
    DiscoveryClient, FileDiscovery, Lists, SimpleDiscovery, SimpleEntry, SupplyError, SupplyErrorKind,
};
use evenkeel::gateway::{Gateway, RouteDefinition, Routes};
use evenkeel::health::{HealthCheck, HealthProbe, ProbeError};
use evenkeel::observe::{Completion, Lifecycle};
use evenkeel::policy::{Candidates, Needs, Picker, Policy, RoundRobin};
use evenkeel::supplier::{
    ApiVersion, FixedSupplier, ListStage, MetadataRoute, OwnFleet, Rank, StageCx, Subset, ZonePreference,
};
use evenkeel::{
    Failure, InstanceState, LoadBalancer, LoadBalancers, Outcome, Request, ServiceId, ServiceInstance,
    ServiceInstanceListSupplier, SupplierBuilder, async_trait,
};
use futures_util::{StreamExt, stream};

use crate::contract;
use crate::subscriber::{self, Said, listen};
use crate::support::{Answer, Pull, advance, instance, list, refused, settle, with};

/// What no test here can bring about.
const NOT_PRODUCED: [(&str, &str); 7] = [
    ("making a table panicked; the one before stands", "no table of ours does"),
    ("a warm start needs the feature `file`", "tests have every feature"),
    ("meters need the feature `metrics`", "tests have every feature"),
    ("no watch on this file, it is polled instead", "the system has no watch left"),
    ("no watch on this directory", "the system has no watch left"),
    ("a watch on files failed", "the system says so"),
    ("an address is left out", "no address of a resolver is invalid"),
];

/// The events with `text` that have `value` in `field`; their level and fields are those of the guide.
#[track_caller]
fn told(text: &str, field: &str, value: &str) -> Vec<Said> {
    let guide = contract::guide();
    let (level, fields) = guide.get(text).unwrap_or_else(|| panic!("the guide has no event {text:?}"));
    let events = subscriber::events(text, field, value);
    for said in &events {
        assert_eq!(said.level.to_string().to_lowercase(), *level, "{said:?}");
        for field in said.fields.keys().filter(|field| *field != "message") {
            assert!(fields.contains(field), "{field} of {said:?}");
        }
        for field in fields.iter().filter(|field| !["suppressed", "group"].contains(&&***field)) {
            assert!(said.fields.contains_key(field), "{field} is missing in {said:?}");
        }
    }
    events
}

/// The one such event.
#[track_caller]
fn one(text: &str, field: &str, value: &str) -> Said {
    let mut events = told(text, field, value);
    assert_eq!(events.len(), 1, "{text} with {field} {value}: {events:#?}");
    events.remove(0)
}

fn chain(service: &str, client: impl DiscoveryClient) -> SupplierBuilder {
    listen();
    SupplierBuilder::new(service).with_discovery_client(client).with_seed(7)
}

fn over(chain: SupplierBuilder) -> LoadBalancer {
    LoadBalancer::builder(chain.build().unwrap()).build()
}

fn service(name: &str) -> ServiceId {
    ServiceId::new(name).unwrap()
}

async fn pick(balancer: &LoadBalancer) {
    drop(balancer.choose(&Request::EMPTY).await);
    settle().await;
}

#[test]
fn every_event_of_the_guide_is_produced_here_or_cannot_be() {
    let here = std::fs::read_to_string("tests/observing/events.rs").unwrap();
    let guide = contract::guide();
    for text in guide.keys() {
        assert!(here.contains(&format!("\"{text}\"")), "{text}");
    }
    for (text, why) in NOT_PRODUCED {
        assert!(guide.contains_key(text), "{text} ({why})");
    }
}

// -------------------------------------------------------------------------------------------------------------- lists

#[tokio::test(start_paused = true)]
async fn lists_that_change_are_told_ten_times_a_minute() {
    let registry = SimpleDiscovery::new();
    let changing = service("changing");
    registry.set(&changing, list("a"));
    let balancer = over(chain("changing", registry.clone()));
    pick(&balancer).await;
    let text = "the list of instances changed";
    let first = one("the list of instances changed", "service", "changing");
    assert_eq!((&*first.fields["version"], &*first.fields["known"]), ("1", "1"));
    assert!(!first.fields.contains_key("suppressed"));
    for n in 0..30 {
        registry.set(&changing, list(if n % 2 == 0 { "a b" } else { "a" }));
        settle().await;
    }
    assert_eq!(told(text, "service", "changing").len(), 10);
    advance(60.0).await;
    registry.set(&changing, list("c"));
    settle().await;
    let all = told(text, "service", "changing");
    assert_eq!((all.len(), all[10].fields["suppressed"].as_str()), (11, "21"));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_source_has_a_beginning_and_an_end() {
    let start = tokio::time::Instant::now();
    let registry = Pull::new(move |_| async move {
        let down = (10.0..200.0).contains(&start.elapsed().as_secs_f64());
        if down { Err(refused()) } else { Ok(list("a")) }
    });
    let stale = Staleness::For(Duration::from_secs(100));
    let balancer = over(chain("outage", registry).with_stale_if_error(stale));
    for _ in 0..300 {
        pick(&balancer).await;
        advance(1.0).await;
    }
    let begun = one("the source does not answer", "service", "outage");
    assert_eq!((&*begun.fields["at_hand"], begun.fields["error"].contains("refused")), ("true", true));
    assert!(told("the source still does not answer", "service", "outage").len() > 3);
    one("the last list is too old to be served", "service", "outage");
    let over = one("the source answers again", "service", "outage");
    assert!(over.fields["failures"].parse::<u32>().unwrap() > 3);
}

#[tokio::test(start_paused = true)]
async fn the_empty_guard_is_told_when_it_begins_and_when_it_ends() {
    for (name, last, empty) in [("guarded-a", "", "true"), ("guarded-b", "b", "false")] {
        let registry = Pull::timed(move |at| -> Answer {
            Ok(if at < 10.0 {
                list("a")
            } else if at < 50.0 {
                Vec::new()
            } else {
                list(last)
            })
        });
        let balancer = over(chain(name, registry));
        for _ in 0..80 {
            pick(&balancer).await;
            advance(1.0).await;
        }
        one(
            "the empty guard is on: the source gives an empty list, and the last one is kept for now",
            "service",
            name,
        );
        let off = one("the empty guard is off", "service", name);
        assert_eq!(off.fields["empty"], empty);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_needs_is_closed() {
    let registry = SimpleDiscovery::new();
    registry.set(&service("unused"), list("a"));
    let balancer = over(chain("unused", registry));
    pick(&balancer).await;
    for _ in 0..30 {
        advance(60.0).await;
    }
    one("the watch is closed: nobody calls", "service", "unused");
}

#[test]
fn a_runtime_that_goes_away_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let balancer = over(chain("homeless", Pull::always("a", Duration::from_secs(9))));
    runtime.block_on(async {
        let _ = tokio::time::timeout(Duration::from_millis(20), balancer.ready()).await;
    });
    drop(runtime);
    one("the runtime of a look-up went away", "service", "homeless");
}

/// Panics when it is told to.
#[derive(Clone, Debug, Default)]
struct Panics(Arc<AtomicBool>);

impl ListStage for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }
    fn rank(&self) -> Rank {
        Rank::Filter(0)
    }
    fn apply(&self, _: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
    }
}

/// A watch whose first list has an error at its heels.
#[derive(Debug)]
struct Beheld(ServiceId);

impl ServiceInstanceListSupplier for Beheld {
    fn service_id(&self) -> &ServiceId {
        &self.0
    }
    fn get(&self) -> Lists {
        let error = SupplyError::new(SupplyErrorKind::Io, "fake", "cut");
        Box::pin(stream::iter([Ok(list("a")), Err(error)]).chain(stream::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_stage_panics_at_is_told_of() {
    listen();
    let panics = Panics::default();
    panics.0.store(true, Ordering::SeqCst);
    let chain = SupplierBuilder::new("beheld").with_base(Beheld(service("beheld"))).with_list_stage(panics);
    pick(&over(chain)).await;
    assert!(!told("a list is not taken", "service", "beheld").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_panics_when_properties_change_leaves_the_last_list() {
    listen();
    let (panics, live) = (Panics::default(), LiveProperties::new(Properties::default()));
    let registry = SimpleDiscovery::new();
    registry.set(&service("panicking"), list("a"));
    let stage = panics.clone();
    let balancers = LoadBalancers::builder(registry)
        .live(live.clone())
        .service("panicking", move |service| service.chain(move |chain| chain.with_list_stage(stage.clone())))
        .build()
        .unwrap();
    pick(&balancers.get("panicking").unwrap()).await;
    panics.0.store(true, Ordering::SeqCst);
    for ttl in ["7s", "8s", "9s"] {
        live.replace(Properties::default().set("cache.ttl", ttl).unwrap());
        settle().await;
    }
    // Three times, and told once a minute.
    one("a stage of the chain or the policy panicked: the last list stands", "service", "panicking");
}

// ---------------------------------------------------------------------------------------------------------- instances

#[tokio::test(start_paused = true)]
async fn an_instance_is_skipped_and_back() {
    listen();
    let base = FixedSupplier::new(service("skipping"), list("a"));
    let balancer = over(SupplierBuilder::new("skipping").with_base(base));
    let lease = balancer.choose(&Request::EMPTY).await.unwrap();
    lease.complete(Outcome::Failure(Failure::Connect));
    let skipped = one("an instance is skipped: a call could not be sent to it", "service", "skipping");
    assert_eq!((&*skipped.fields["failures"], &*skipped.fields["back_off_ms"]), ("1", "1000"));
    advance(1.1).await;
    balancer.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
    let back = one("an instance is back in use", "service", "skipping");
    assert_eq!(back.fields["instance"], skipped.fields["instance"]);
}

/// Connects nobody whose id is `bad`.
#[derive(Debug)]
struct Connecting;

#[async_trait]
impl evenkeel::PreConnect for Connecting {
    async fn connect(
        &self,
        instance: &ServiceInstance,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if instance.id() == "bad" { Err("connection refused".into()) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn new_instances_are_connected() {
    listen();
    let registry = SimpleDiscovery::new();
    registry.set(&service("connecting"), list("a"));
    let chain = SupplierBuilder::new("connecting").with_discovery_client(registry.clone());
    let balancer = LoadBalancer::builder(chain.build().unwrap())
        .pre_connection(evenkeel::config::PreConnectionProperties::on().with_max_retries(1))
        .pre_connect(Connecting)
        .build();
    balancer.ready().await.unwrap();
    registry.set(&service("connecting"), list("a b bad"));
    advance(1.0).await;
    let tries = told("a new instance could not be connected", "service", "connecting");
    let attempts: Vec<&str> = tries.iter().map(|said| &*said.fields["attempt"]).collect();
    assert_eq!(attempts, ["1", "2"]);
    assert!(tries.iter().all(|said| said.fields["error"] == "connection refused"));
    let done = one("new instances were connected", "service", "connecting");
    assert_eq!((&*done.fields["instances"], &*done.fields["connected"]), ("2", "1"));
    assert_eq!(&*done.fields["elapsed_ms"], "100");
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_ejected_and_a_second_is_not() {
    listen();
    let base = FixedSupplier::new(service("ejecting"), list("a b c"));
    let chain = SupplierBuilder::new("ejecting").with_base(base);
    let balancer = LoadBalancer::builder(chain.build().unwrap())
        .outlier_detection(evenkeel::config::OutlierDetectionProperties::on())
        .build();
    for _ in 0..60 {
        let lease = balancer.choose(&Request::EMPTY).await.unwrap();
        let bad = lease.instance().id() != "c";
        lease.complete(Outcome::Status(if bad { 500 } else { 200 }));
    }
    let ejected = one("an instance is ejected", "service", "ejecting");
    assert_eq!((&*ejected.fields["cause"], &*ejected.fields["for_ms"]), ("consecutive-errors", "30000"));
    assert_eq!(ejected.fields["ejected"], "1 of 3");
    let kept = one("an outlier stays in use: no more may be ejected", "service", "ejecting");
    assert_ne!(kept.fields["instance"], ejected.fields["instance"]);
    // One that the others tell of comes with its figures.
    let base = FixedSupplier::new(service("rates"), list("a b c d e f"));
    let chain = SupplierBuilder::new("rates").with_base(base);
    let by_rate = evenkeel::config::OutlierDetectionProperties::on().with_consecutive_errors(0);
    let balancer = LoadBalancer::builder(chain.build().unwrap()).outlier_detection(by_rate).build();
    for _ in 0..6 * 200 {
        let lease = balancer.choose(&Request::EMPTY).await.unwrap();
        let bad = lease.instance().id() == "d";
        lease.complete(Outcome::Status(if bad { 500 } else { 200 }));
    }
    advance(10.1).await;
    let ejected = one("an instance is ejected", "service", "rates");
    let calls: u32 = ejected.fields["calls"].parse().unwrap();
    let failed: u32 = ejected.fields["failed"].parse().unwrap();
    assert!(calls > 190 && failed + 1 >= calls && ejected.fields["cause"] == "success-rate");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_dead_instances_are_ten_lines() {
    listen();
    let all = (0..1_000).map(|n| instance(&format!("i{n}"))).collect::<Vec<_>>();
    let balancer = over(SupplierBuilder::new("dead").with_base(FixedSupplier::new(service("dead"), all)));
    for _ in 0..1_000 {
        let lease = balancer.choose(&Request::EMPTY).await.unwrap();
        lease.complete(Outcome::Failure(Failure::Connect));
    }
    assert_eq!(told("an instance is skipped: a call could not be sent to it", "service", "dead").len(), 10);
}

#[derive(Clone, Debug, Default)]
struct Probe(Arc<AtomicBool>);

#[async_trait]
impl HealthProbe for Probe {
    async fn check(&self, _: &ServiceInstance) -> Result<(), ProbeError> {
        if self.0.load(Ordering::SeqCst) { Ok(()) } else { Err(ProbeError::new("ill")) }
    }
}

#[tokio::test(start_paused = true)]
async fn health_checks_that_all_fail_and_pass_again() {
    let (registry, probe) = (SimpleDiscovery::new(), Probe::default());
    registry.set(&service("checked"), list("a b"));
    let balancer = over(chain("checked", registry).with_health_checks(HealthCheck::new(probe.clone())));
    pick(&balancer).await;
    advance(60.0).await;
    let ill = one("no instance passes its health check", "service", "checked");
    assert_eq!((&*ill.fields["instances"], &*ill.fields["fail_open"]), ("2", "true"));
    assert!(told("a health check failed", "service", "checked").len() >= 2);
    probe.0.store(true, Ordering::SeqCst);
    advance(60.0).await;
    assert_eq!(one("health checks pass again", "service", "checked").fields["usable"], "2");
}

#[tokio::test(start_paused = true)]
async fn panic_is_told_when_it_begins_and_when_it_ends() {
    let (registry, probe) = (SimpleDiscovery::new(), Probe::default());
    registry.set(&service("panicky"), list("a b"));
    let chain = chain("panicky", registry.clone()).with_panic_threshold(50);
    let balancer = over(chain.with_health_checks(HealthCheck::new(probe.clone())));
    pick(&balancer).await;
    advance(60.0).await;
    let begun = one("panic: too few instances are usable, and all are used", "service", "panicky");
    let fields = ["usable", "listed", "threshold", "total"].map(|field| &*begun.fields[field]);
    assert_eq!(fields, ["0", "2", "50", "true"]);
    // A list that changes meanwhile says nothing new.
    registry.set(&service("panicky"), list("a b c"));
    settle().await;
    one("panic: too few instances are usable, and all are used", "service", "panicky");
    probe.0.store(true, Ordering::SeqCst);
    advance(60.0).await;
    let ended = one("the panic is over: enough instances are usable", "service", "panicky");
    assert_eq!((&*ended.fields["usable"], &*ended.fields["listed"]), ("3", "3"));
}

#[tokio::test(start_paused = true)]
async fn zones_in_proportion_are_told_of_when_they_come_on_or_go_off() {
    let registry = SimpleDiscovery::new();
    let divided = service("divided");
    registry.set(&divided, with("zone", "a=x b=x c=x d=y e=y f=y"));
    let fleet = OwnFleet::fixed([("x", 2), ("y", 1)]);
    let zone = ZonePreference::new("X").with_mode(ZoneMode::Proportional);
    let balancer =
        over(chain("divided", registry.clone()).with_zone_preference(zone).with_own_fleet(fleet.clone()));
    pick(&balancer).await;
    let on = one("zones are used in proportion", "service", "divided");
    assert_eq!(on.fields["zone"], "x");
    fleet.set([("y", 1), ("z", 1)]);
    settle().await;
    fleet.set([("y", 2), ("z", 1)]);
    settle().await;
    let text = "zones are not used in proportion: every instance is used by its weight";
    let off =
        one("zones are not used in proportion: every instance is used by its weight", "service", "divided");
    assert!(off.fields["why"].contains("no client in the own zone"), "{off:?}");
    registry.set(&divided, with("zone", "a=x b=x c=x d=y e=y f=y"));
    fleet.set([("x", 2)]);
    settle().await;
    assert!(told(text, "service", "divided")[1].fields["why"].contains("fewer than two zones"));
}

#[tokio::test(start_paused = true)]
async fn an_own_zone_that_is_not_found_is_told() {
    let registry = SimpleDiscovery::new();
    registry.set(&service("lost"), with("zone", "a=x b=x c=x d=y e=y f=y"));
    let zone = ZonePreference::proportional().with_local_addresses(["10.0.0.9".parse().unwrap()]);
    let chain = chain("lost", registry).with_zone_preference(zone);
    let balancer = over(chain.with_own_fleet(OwnFleet::fixed([("x", 2), ("y", 1)])));
    pick(&balancer).await;
    let lost = one("the own zone is not known: zones are not used in proportion", "service", "lost");
    assert!(lost.fields["addresses"].contains("10.0.0.9"), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_an_instance_is_told_once_a_minute() {
    let registry = SimpleDiscovery::new();
    let far = service("far");
    registry.set(&far, with("zone", "a=eu-2"));
    let balancer = over(chain("far", registry.clone()).with_zone_preference("eu-1"));
    pick(&balancer).await;
    for ids in ["a=eu-2 b=eu-2", "b=eu-2", "c=eu-2"] {
        registry.set(&far, with("zone", ids));
        settle().await;
    }
    let off = one("the zone preference is off: all instances are used", "service", "far");
    assert_eq!((&*off.fields["zone"], &*off.fields["why"]), ("eu-1", "no instance is in it"));
}

#[tokio::test(start_paused = true)]
async fn a_weight_that_is_none_is_told_once() {
    let registry = SimpleDiscovery::new();
    registry.set(&service("heavy"), with("weight", "a=lots"));
    pick(&over(chain("heavy", registry).with_weights())).await;
    let weight = one("a weight cannot be read: it counts as 1", "service", "heavy");
    assert!(weight.fields["wrong"].contains("lots"));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_load_that_is_none_is_told_once_a_minute() {
    let registry = SimpleDiscovery::new();
    registry.set(&service("loaded"), list("a"));
    let policy = evenkeel::policy::Adaptive::default();
    let chain = chain("loaded", registry).build().unwrap();
    let balancer = LoadBalancer::builder(chain).policy(policy).build();
    for _ in 0..3 {
        let choice = balancer.choose(&Request::EMPTY).await.unwrap();
        let mut response = http::Response::new(http_body_util::Empty::<&[u8]>::new());
        response.headers_mut().insert("endpoint-load-metrics", "TEXT eps=many".parse().unwrap());
        drop(choice.track(response));
    }
    let said = one("a report of load cannot be read: it says nothing", "service", "loaded");
    assert!(said.fields["error"].contains("\"many\" of \"eps\""), "{said:?}");
}

// -------------------------------------------------------------------------------------------------------------- calls

async fn broken(balancer: &LoadBalancer) {
    let classify = |_: Result<&(), &&str>| Outcome::Failure(Failure::Reset);
    let send = |_: &evenkeel::Choice, _| Some(async { Err::<(), _>("broken") });
    assert!(call(balancer, &Request::EMPTY, classify, send).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_repeated_and_one_that_may_not_be() {
    listen();
    let retry = RetryProperties::default()
        .with_retry_on_all_operations(true)
        .with_budget(RetryBudgetProperties::default().with_percent(0).with_min_per_second(1));
    let base = FixedSupplier::new(service("repeating"), list("a b"));
    let chain = SupplierBuilder::new("repeating").with_base(base).build().unwrap();
    let balancer = LoadBalancer::builder(chain).retry(retry).build();
    for _ in 0..30 {
        broken(&balancer).await;
    }
    let repeated = told("a call is repeated", "service", "repeating");
    assert_eq!((repeated.len(), &*repeated[0].fields["attempt"]), (10, "1"));
    one("a call is not repeated: the budget of retries is used up", "service", "repeating");
    advance(60.0).await;
    for _ in 0..11 {
        broken(&balancer).await;
    }
    let refused = told("a call is not repeated: the budget of retries is used up", "service", "repeating");
    assert_eq!(refused[1].fields["suppressed"], "19");
}

#[tokio::test(start_paused = true)]
async fn a_request_through_a_gateway_that_comes_to_nothing() {
    listen();
    let balancers = LoadBalancers::fixed([("nowhere", Vec::new())]).unwrap();
    let routes = Routes::new([RouteDefinition::new("to-nowhere", "lb://nowhere")]).unwrap();
    let service = Gateway::builder(balancers).routes(routes).build().into_service();
    let request = http::Request::get("http://shop.test/x").body(http_body_util::Empty::new()).unwrap();
    assert_eq!(tower::ServiceExt::oneshot(service, request).await.unwrap().status(), 503);
    let said = one("a request through the gateway came to nothing", "route", "to-nowhere");
    assert_eq!(said.fields["status"], "503");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_its_caller_does_not_see() {
    listen();
    let base = FixedSupplier::new(service("failsafe"), list("a"));
    let chain = SupplierBuilder::new("failsafe").with_base(base).build().unwrap();
    let balancer = LoadBalancer::builder(chain).build();
    let classify = |_: Result<&(), &&str>| Outcome::Failure(Failure::Reset);
    for _ in 0..3 {
        let send = |_: &evenkeel::Choice, _| Some(async { Err::<(), _>("broken") });
        assert!(Failsafe::default().run(&balancer, &Request::EMPTY, classify, send).await.is_none());
    }
    let send = |_: &evenkeel::Choice, _| Some(async { Err::<(), _>("broken") });
    let failback = Failback::default().with_retries(0);
    assert!(failback.run(&balancer, &Request::EMPTY, classify, send).await.is_none());
    let said = one("a call that failed is given up, and nobody waits for it", "service", "failsafe");
    assert_eq!(said.fields["attempts"], "1");
    let said = one("a call failed, and its caller goes on without an answer", "service", "failsafe");
    assert!(
        said.fields["error"].contains("a.test:8080") && said.fields["error"].ends_with("broken"),
        "{said:?}"
    );
}

#[derive(Debug)]
struct Listens;

impl Policy for Listens {
    fn name(&self) -> Cow<'static, str> {
        "listens".into()
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        RoundRobin::default().picker(set)
    }
    fn on_outcome(&self, _: &InstanceState, _: Outcome, _: Option<Duration>) {
        panic!("on purpose");
    }
}

impl Lifecycle for Listens {
    fn on_complete(&self, _: &Completion<'_>) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_and_a_processor_that_panic_at_every_call_are_told_once_a_minute() {
    listen();
    let base = FixedSupplier::new(service("listening"), list("a"));
    let chain = SupplierBuilder::new("listening").with_base(base).build().unwrap();
    let balancer = LoadBalancer::builder(chain).policy(Listens).lifecycle(Listens).build();
    for _ in 0..20 {
        let send = |_: &evenkeel::Choice, _| Some(async { Ok::<_, Infallible>(()) });
        let answer = call(&balancer, &Request::EMPTY, |_: Result<&(), &Infallible>| Outcome::Success, send);
        answer.await.unwrap().lease.complete(Outcome::Success);
    }
    one("the policy panicked at the end of a call", "service", "listening");
    assert_eq!(one("a lifecycle processor panicked", "service", "listening").fields["method"], "on_complete");
}

#[derive(Debug)]
struct Broken;

impl metrics::Recorder for Broken {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        panic!("on purpose")
    }
    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        panic!("on purpose")
    }
    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_is_told_once_a_minute() {
    listen();
    let _here = metrics::set_default_local_recorder(&Broken);
    let base = FixedSupplier::new(service("recorded"), list("a"));
    let chain = SupplierBuilder::new("recorded").with_base(base).build().unwrap();
    let stats = StatsProperties::default().with_enabled(true);
    pick(&LoadBalancer::builder(chain).stats(stats).build()).await;
    one("a metrics recorder panicked", "message", "");
}

// --------------------------------------------------------------------------------------------------------- properties

#[tokio::test(start_paused = true)]
async fn properties_that_change() {
    listen();
    let live = LiveProperties::new(Properties::default());
    // The code of this service goes wrong when it is asked for the third time.
    let asked = Arc::new(AtomicU32::new(u32::MAX));
    let counting = Arc::clone(&asked);
    let balancers = LoadBalancers::builder(SimpleDiscovery::new())
        .live(live.clone())
        .service("shaped", move |service| {
            service.chain(move |chain| match counting.fetch_sub(1, Ordering::SeqCst) {
                1_000 => panic!("shaped on purpose"),
                1 => chain.with_metadata_route(MetadataRoute::by("x")),
                _ => chain,
            })
        })
        .build()
        .unwrap();
    balancers.get("shaped").unwrap();
    asked.store(3, Ordering::SeqCst);
    live.replace(Properties::default().set("cache.ttl", "7s").unwrap());
    settle().await;
    one("changed properties are not applied to a service", "service", "shaped");
    assert!(!told("changed properties are in force", "services", "1").is_empty());
    asked.store(1, Ordering::SeqCst);
    live.replace(Properties::default().set("cache.ttl", "8s").unwrap());
    settle().await;
    one("changed properties are not applied: the old ones stay in force", "error", "shaped");
    asked.store(1_000, Ordering::SeqCst);
    live.replace(Properties::default().set("cache.ttl", "9s").unwrap());
    settle().await;
    one("the code of a service panicked when changed properties were applied", "panic", "shaped on purpose");
    let bad = |_: &Properties| Properties::parse("evenkeel.cache.ttl: soon", Format::Yaml, "changing.yml");
    live.reload(bad).unwrap_err();
    one("properties are not reloaded: the last good ones stay in force", "error", "changing.yml");
    Properties::parse("evenkeel.cache.tll: 5s", Format::Yaml, "odd.yml").unwrap();
    one("a property has no effect", "warning", "odd.yml");
    let text = "spring.cloud.loadbalancer.call-get-with-request-on-delegates: true";
    Properties::parse(text, Format::Yaml, "spring.yml").unwrap();
    one("a property is accepted and has no meaning here", "warning", "spring.yml");
}

#[tokio::test(start_paused = true)]
async fn overrides_that_begin_and_end() {
    let lb = over(chain("overridden", Pull::always("a b", Duration::ZERO)));
    lb.ready().await.unwrap();
    let drain = Override::drain_instance("a").lasting(Duration::from_secs(60)).because("OPS-17");
    lb.override_with(drain).unwrap();
    let said = one("an override is in force", "service", "overridden");
    assert!(format!("{said:?}").contains("drain instance a"), "{said:?}");
    advance(60.0).await;
    settle().await;
    one("an override ended", "service", "overridden");
}

#[tokio::test(start_paused = true)]
async fn subsets_without_an_id_and_versions_that_are_none() {
    listen();
    // Without a seed, the id is one of the process.
    let registry = SimpleDiscovery::new();
    let subsets =
        SupplierBuilder::new("subsets").with_discovery_client(registry).with_subset(Subset::of_size(2));
    drop(subsets.build().unwrap());
    one(
        "no id of this client is known: its subsets are those of an id of this process",
        "service",
        "subsets",
    );

    let registry = SimpleDiscovery::new();
    registry.set(&service("versions"), with("API_VERSION", "a=1.0-beta b=2"));
    let versions = ApiVersion::default().with_header("x-version").with_fallback(true);
    let balancer = over(chain("versions", registry).with_api_version(versions));
    pick(&balancer).await;
    let said = one("an API version cannot be read: the instance has none", "service", "versions");
    assert!(said.fields["value"].contains("1.0-beta"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn names_that_push_each_other_out() {
    listen();
    let properties = Properties::default().set("cache.capacity", 1).unwrap();
    let balancers = LoadBalancers::from_properties(properties, SimpleDiscovery::new()).unwrap();
    for n in 0..5 {
        balancers.get(format!("pushed-{n}")).unwrap();
    }
    one(
        "a service is dropped before its list is as old as its TTL: cache.capacity is too small for the names in use",
        "service",
        "pushed-",
    );
}

#[tokio::test]
async fn instances_in_properties_that_are_wrong() {
    listen();
    let mut odd = SimpleEntry::at("odd.test", 80);
    odd.set("status", "so-so");
    let entries = vec![odd, SimpleEntry::at("bad.test", 0)];
    let _ = SimpleDiscovery::from_entries([(service("written"), entries)]);
    assert!(one("a configured instance is doubtful", "service", "written").fields["note"].contains("so-so"));
    assert!(
        one("a configured instance is left out", "service", "written").fields["error"].contains("bad.test")
    );
    let text = "spring.cloud.discovery.client.simple.instances:\n  \"no/name\":\n    - uri: http://h:80\n";
    let properties = Properties::parse(text, Format::Yaml, "wrong.yml").unwrap();
    let _ = SimpleDiscovery::configured(&properties);
    one("the instances of a configured service are left out", "error", "no/name");
}

// -------------------------------------------------------------------------------------------------------------- files

#[tokio::test]
async fn a_registry_file_with_a_fault() {
    listen();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("faulty.yml");
    let write = |text: &str| {
        let beside = path.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    };
    write("filed: [{host: h, port: 0}, {host: h, port: 1}]\n");
    let source = FileDiscovery::new(&path).with_poll_interval(Duration::from_millis(50));
    let mut lists = source.watch(&service("filed")).unwrap();
    assert!(lists.next().await.unwrap().is_ok());
    let place = path.display().to_string();
    assert_eq!(one("an entry of the registry file is doubtful", "path", &place).fields["line"], "1");
    write("filed: [{host: h\n");
    assert!(lists.next().await.unwrap().is_err());
    assert_eq!(one("the registry file cannot be read", "error", &place).fields["kept"], "true");
    write("filed: [{host: h, port: 2}]\n");
    assert!(lists.next().await.unwrap().is_ok());
    one("the registry file can be read again", "path", &place);
}

#[tokio::test]
async fn a_warm_start_that_goes_wrong() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.json"), "{").unwrap();
    std::fs::create_dir(dir.path().join("unreadable.json")).unwrap();
    let start = async |name: &str, dir: std::path::PathBuf| {
        let cache = CacheProperties::default().with_warm_start(dir);
        let balancer = over(chain(name, Pull::always("a", Duration::ZERO)).with_caching(cache));
        balancer.ready().await.unwrap();
        balancer
    };
    let _broken = start("broken", dir.path().to_owned()).await;
    one("the list kept for a warm start is broken", "service", "broken");
    let _unreadable = start("unreadable", dir.path().to_owned()).await;
    one("the list kept for a warm start is unreadable", "service", "unreadable");
    // Nor can it be written. The list is kept behind the caller, and a failure is told once a minute for the whole process.
    for _ in 0..500 {
        if !told("the list is not kept for a warm start", "service", "unreadable").is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is told of the list that cannot be kept");
}
