//! Stages that say what they read are not asked about requests that have nothing of it, and nobody can tell.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel::policy::RoundRobin;
use evenkeel::supplier::{
    ApiVersion, GroupIndex, Groups, HintStage, MetadataRoute, Reads, RequestStage, Selection, StickySession,
};
use evenkeel::{
    ChooseErrorKind, HttpView, LoadBalancer, Reason, Request, RequestView, ServiceInstance, SupplierBuilder,
};
use http::HeaderMap;
use proptest::prelude::*;

/// A stage that is always asked.
#[derive(Debug)]
struct Asked<S>(S);

impl<S: RequestStage> RequestStage for Asked<S> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        self.0.groups(instance, emit);
    }
    fn groups_of(&self, list: &[&ServiceInstance], emit: &mut dyn FnMut(usize, &str)) {
        self.0.groups_of(list, emit);
    }
    fn index(&self, groups: &Groups) -> Option<GroupIndex> {
        self.0.index(groups)
    }
    fn instance_name(&self, instance: &ServiceInstance) -> Option<String> {
        self.0.instance_name(instance)
    }
    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        self.0.select(request, groups)
    }
    fn refusal(&self, request: &Request<'_>, groups: &Groups) -> (Reason, Option<String>) {
        self.0.refusal(request, groups)
    }
    fn is_strict(&self) -> bool {
        self.0.is_strict()
    }
}

/// The same request as a client tells it that keeps no map of headers.
struct Told<'a>(HttpView<'a>);

impl RequestView for Told<'_> {
    fn url(&self) -> Option<Cow<'_, str>> {
        self.0.url()
    }
    fn header(&self, name: &str) -> Option<&str> {
        self.0.header(name)
    }
    fn cookie(&self, name: &str) -> Option<&str> {
        self.0.cookie(name)
    }
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.query(name)
    }
}

fn list() -> Vec<ServiceInstance> {
    let one = |at: u16| {
        let tag = ["blue", "green", ""][usize::from(at % 3)];
        let version = ["1", "2.1"][usize::from(at / 3 % 2)];
        ServiceInstance::builder("10.0.0.1")
            .port(8000 + at)
            .id(format!("i-{at}"))
            .with_metadata("hint", tag)
            .with_metadata("API_VERSION", version)
            .with_metadata("tenant", ["acme", "other"][usize::from(at % 2)])
            .build()
            .unwrap()
    };
    (0..12).map(one).collect()
}

fn versions() -> ApiVersion {
    let places = ApiVersion::default().with_header("X-Api-Version").with_query_parameter("v");
    places.with_path_segment(2).with_media_type_parameter("application/json", "version")
}

fn balancer(chain: SupplierBuilder) -> LoadBalancer {
    let chain = chain.with_instances(list()).build().unwrap();
    LoadBalancer::builder(chain).policy(RoundRobin::starting_at(0)).build()
}

/// The port that was picked, or why none was.
fn picked(balancer: &LoadBalancer, request: &Request<'_>) -> Result<u16, Reason> {
    match balancer.try_choose(request) {
        Ok(choice) => Ok(choice.instance().port().unwrap()),
        Err(error) => match error.kind() {
            ChooseErrorKind::NoInstances { reason, .. } => Err(*reason),
            other => panic!("{other:?}"),
        },
    }
}

/// Which stages a chain has, and of what kind.
type Made = (Option<u8>, Option<bool>, Option<bool>, bool);

fn chain(made: Made, asked: bool) -> SupplierBuilder {
    fn with<S: RequestStage>(chain: SupplierBuilder, stage: S, asked: bool) -> SupplierBuilder {
        if asked { chain.with_request_stage(Asked(stage)) } else { chain.with_request_stage(stage) }
    }
    let mut chain = SupplierBuilder::new("orders");
    if let Some(kind) = made.0 {
        let stage = match kind {
            0 => versions().with_fallback(true),
            1 => versions().with_required(true),
            _ => versions().with_default("1"),
        };
        chain = with(chain, stage, asked);
    }
    if let Some(default) = made.1 {
        let hint = HintStage::default();
        chain = with(chain, if default { hint.with_default("green") } else { hint }, asked);
    }
    if let Some(fallback) = made.2 {
        let route = MetadataRoute::by("tenant").header("x-tenant").cookie("tenant").query("tenant");
        chain = with(chain, if fallback { route.with_fallback(["other"]) } else { route }, asked);
    }
    if made.3 { with(chain, StickySession::default(), asked) } else { chain }
}

fn made() -> impl Strategy<Value = Made> {
    (
        proptest::option::of(0..3_u8),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<bool>()),
        any::<bool>(),
    )
}

const HEADERS: &[(&str, &str)] = &[
    ("x-api-version", "2.1"),
    ("x-api-version", "none"),
    ("X-SC-LB-Hint", "blue"),
    ("x-sc-lb-hint", " "),
    ("x-tenant", "acme"),
    ("cookie", "sc-lb-instance-id=i-7"),
    ("cookie", "a=b; tenant=other; sc-lb-instance-id=\"i-4\""),
    ("accept", "application/json; version=2.1"),
    ("content-type", "application/json;version=1"),
    // Names that share a mark with one of those, or nothing.
    ("user-agent", "test"),
    ("x-b3-traceid", "1"),
    ("x-api-versio2", "2.1"),
    ("x-really-long-name-of-a-header", "1"),
    ("te", "trailers"),
    ("host", "orders"),
    ("from", "a@b.test"),
];

const TARGETS: &[&str] = &["/", "/a?v=2.1", "/api/x/2.1/y", "/?tenant=acme", "/?v=&tenant="];

fn request() -> impl Strategy<Value = (Vec<usize>, usize, Option<&'static str>, u8)> {
    let headers = proptest::collection::vec(0..HEADERS.len(), 0..12);
    let hints = ["blue", "nobody", "", " blue ", " ", "bluegre", "gréen", "\u{a0}green"];
    let hint = proptest::option::of(proptest::sample::select(hints.to_vec()));
    (headers, 0..TARGETS.len(), hint, 0..4_u8)
}

proptest! {
    #[test]
    fn a_stage_that_is_not_asked_would_have_said_the_same(
        made in made(),
        requests in proptest::collection::vec(request(), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let (sparing, asking) = (balancer(chain(made, false)), balancer(chain(made, true)));
        runtime.block_on(async { (sparing.ready().await.unwrap(), asking.ready().await.unwrap()) });
        for (headers, target, hint, kind) in requests {
            let mut http = http::Request::builder().uri(TARGETS[target]);
            for at in headers {
                http = http.header(HEADERS[at].0, HEADERS[at].1);
            }
            let http = http.body(()).unwrap();
            let view = HttpView::of(&http);
            let told = Told(view);
            let request = match kind {
                0 => Request::EMPTY,
                1 => Request::of(&told),
                _ => Request::of(&view),
            };
            let request = hint.map_or(request, |hint| request.with_hint(hint));
            prop_assert_eq!(picked(&sparing, &request), picked(&asking, &request), "{:?}", http);
        }
    }
}

/// Counts how often it is asked.
#[derive(Debug)]
struct Counts(&'static AtomicU32, Reads);

impl RequestStage for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }
    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}
    fn select(&self, _: &Request<'_>, _: &Groups) -> Selection {
        self.0.fetch_add(1, Ordering::Relaxed);
        Selection::All
    }
    fn reads(&self) -> Reads {
        self.1
    }
}

/// How often a stage with these `reads` is asked about a request, after it was asked once about the empty one.
async fn asks(reads: Reads, request: &Request<'_>) -> u32 {
    let count: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let balancer = balancer(SupplierBuilder::new("orders").with_request_stage(Counts(count, reads)));
    balancer.ready().await.unwrap();
    let before = count.swap(0, Ordering::Relaxed);
    assert_eq!(before, u32::from(reads != Reads::anything()), "the empty request is asked for once a list");
    for _ in 0..10 {
        drop(balancer.try_choose(request).unwrap());
    }
    count.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_stage_is_asked_about_what_it_reads_and_about_nothing_else() {
    let http = http::Request::builder().header("x-tenant", "acme").header("te", "trailers").body(()).unwrap();
    let view = HttpView::of(&http);
    let (told, empty) = (Told(view), Request::EMPTY);
    let (view, told) = (Request::of(&view), Request::of(&told));
    let nothing = Reads::nothing();
    for (reads, request, times) in [
        (Reads::anything(), &empty, 10),
        (nothing, &view, 0),
        (nothing.with_header("X-Tenant"), &view, 10),
        (nothing.with_header("X-Tenant"), &empty, 0),
        (nothing.with_header("x-other"), &view, 0),
        (nothing.with_cookies(), &view, 0),
        (nothing.with_hint(), &view, 0),
        (nothing.with_hint(), &empty.with_hint("blue"), 10),
        (nothing.with_view(), &view, 10),
        (nothing.with_view(), &empty.with_hint("blue"), 0),
        // Who does not show all headers may have any.
        (nothing.with_header("x-other"), &told, 10),
        (nothing.with_cookies(), &told, 10),
        (nothing.with_header("no name\n"), &told, 10),
    ] {
        assert_eq!(asks(reads, request).await, times, "{reads:?} {request:?}");
    }
}

#[test]
fn headers_are_what_a_view_looks_into() {
    struct Mail(HeaderMap);
    impl RequestView for Mail {
        fn headers(&self) -> Option<&HeaderMap> {
            Some(&self.0)
        }
    }
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-a", "1"), ("x-a", "2"), ("cookie", "sid=7")] {
        headers.append(name, value.parse().unwrap());
    }
    let mail = Mail(headers);
    let request = Request::of(&mail);
    assert_eq!((request.header("X-A"), request.cookie("sid")), (Some("1"), Some("7")));
    let mut values = Vec::new();
    request.header_values("x-A", &mut |value| values.push(value.to_owned()));
    assert_eq!(values, ["1", "2"]);
    assert_eq!(request.headers().map(HeaderMap::len), Some(3));
    assert!(Request::EMPTY.headers().is_none());
}
