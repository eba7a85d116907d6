//! 3.22 Gateway: cases 274 to 289, as far as a client has them too; `tests/gateway/` and `src/gateway/` have the others.
#![cfg(feature = "reqwest")]
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::client::reqwest::Via;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::policy::{Candidates, Needs, Picker, Policy, RoundRobin};
use evenkeel::supplier::{Groups, RequestStage, Selection};
use evenkeel::{
    ChooseErrorKind, Failure, InstanceState, LoadBalancers, Outcome, Reason, Request, RequestView, ServiceId,
    ServiceInstance, Target,
};

use crate::net::{Act, Server, balancers, client, ok, over as client_over};
use crate::support::{Pull, fixed, list};

fn localhost(secure: bool) -> ServiceInstance {
    ServiceInstance::builder("localhost").port(8080).secure(secure).build().unwrap()
}

fn rewritten(instance: &ServiceInstance, scheme: &str, original: &str) -> String {
    Target::of(instance, Some(scheme), false).unwrap().rewrite(original)
}

#[tokio::test]
async fn scl_274_without_a_url_no_balancer_is_asked() {
    let source = Pull::always("a", Duration::ZERO);
    let http = client(&LoadBalancers::builder(source.clone()).build().unwrap());
    for text in ["", "/mypath", "lb:///mypath"] {
        let error = http.get(text).send().await.unwrap_err();
        assert!(error.is_invalid_url(), "{error}");
    }
    assert_eq!((source.calls(), http.balancers().services().len()), (0, 0));
}

#[tokio::test]
async fn scl_275_a_host_that_is_no_service_and_another_scheme_touch_no_balancer() {
    let server = Server::start(ok("plain")).await;
    let source = Pull::always("a", Duration::ZERO);
    let http = client(&LoadBalancers::builder(source.clone()).build().unwrap());
    // Past a proxy of the environment, if there is one.
    if std::env::vars().all(|(name, _)| !name.eq_ignore_ascii_case("http_proxy")) {
        let response = http.get(format!("http://{}/mypath", server.address)).send().await.unwrap();
        assert!(response.extensions().get::<Via>().is_none());
        assert_eq!(response.text().await.unwrap(), "plain");
    }
    let error = http.get("xx://myservice/mypath").send().await.unwrap_err();
    assert!(error.choose_error().is_none() && error.reqwest_error().is_some(), "{error}");
    assert_eq!((source.calls(), http.balancers().services().len()), (0, 0));
}

#[tokio::test]
async fn scl_276_without_a_balancer_for_the_service_it_is_a_typed_error() {
    let properties = Properties::default().set_for("myservice", "enabled", false).unwrap();
    let http = client(&LoadBalancers::from_properties(properties, SimpleDiscovery::new()).unwrap());
    let error = http.get("lb://myservice/mypath").send().await.unwrap_err();
    assert!(error.build_error().unwrap().reason().contains("enabled: false"), "{error}");
    let error = http.get("lb://other/mypath").send().await.unwrap_err();
    let kind = error.choose_error().unwrap().kind();
    assert!(matches!(kind, ChooseErrorKind::NoInstances { reason: Reason::Empty, .. }), "{error}");
}

#[test]
fn scl_277_a_secure_instance_is_called_by_https() {
    let original = "lb://myservice/mypath".to_owned();
    assert_eq!(rewritten(&localhost(true), "lb", &original), "https://localhost:8080/mypath");
    assert_eq!(original, "lb://myservice/mypath", "who rewrites keeps the original");
}

#[test]
fn scl_278_a_request_by_https_does_not_go_in_the_clear_unless_that_is_allowed() {
    let error = Target::of(&localhost(false), Some("https"), false).unwrap_err();
    assert_eq!(error.instance(), &localhost(false));
    let allowed = Target::of(&localhost(false), Some("https"), true).unwrap();
    assert_eq!(allowed.rewrite("https://localhost:9999/mypath"), "http://localhost:8080/mypath");
}

#[test]
fn scl_279_a_query_is_kept_and_need_not_be_there() {
    assert_eq!(rewritten(&localhost(false), "lb", "lb://service1?a=b"), "http://localhost:8080/?a=b");
    assert_eq!(rewritten(&localhost(false), "lb", "lb://service1/?a=b"), "http://localhost:8080/?a=b");
    assert_eq!(rewritten(&localhost(false), "lb", "lb://service1"), "http://localhost:8080/");
}

/// What arrives at the server for these queries.
async fn arrives(queries: &[&str]) -> Vec<String> {
    let server = Server::start(ok("")).await;
    let http = client_over([server.instance("a")]);
    for query in queries {
        http.get(format!("lb://orders/x?{query}")).send().await.unwrap();
    }
    let lines = server.heads();
    let query = |head: &String| {
        head.lines().next()?.strip_prefix("GET /x?")?.strip_suffix(" HTTP/1.1").map(str::to_owned)
    };
    lines.iter().filter_map(query).collect()
}

#[tokio::test]
async fn scl_280_an_encoded_query_is_not_encoded_again_and_an_unencoded_one_not_at_all() {
    let queries = ["a=b&c=d%5B%5D", "a=b&c=d[]"];
    for query in queries {
        let original = format!("lb://service1/x?{query}");
        let expected = format!("http://localhost:8080/x?{query}");
        assert_eq!(rewritten(&localhost(false), "lb", &original), expected);
    }
    assert_eq!(arrives(&queries).await, queries);
}

#[test]
fn scl_281_a_websocket_stays_one_on_the_host_of_the_instance() {
    assert_eq!(rewritten(&localhost(false), "ws", "ws://service1"), "ws://localhost:8080/");
    assert_eq!(rewritten(&localhost(false), "lb:ws", "lb:ws://service1/x"), "ws://localhost:8080/x");
    assert_eq!(rewritten(&localhost(true), "LB:ws", "lb:ws://service1/x"), "wss://localhost:8080/x");
}

/// Writes down what a request says of itself.
#[derive(Clone, Debug, Default)]
struct Sees(Arc<Mutex<Vec<String>>>);

impl RequestStage for Sees {
    fn name(&self) -> &str {
        "sees"
    }
    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}
    fn select(&self, request: &Request<'_>, _: &Groups) -> Selection {
        let parts = [
            request.url().map(Cow::into_owned).unwrap_or_default(),
            request.attribute("route").unwrap_or_default().to_owned(),
            request.hint().unwrap_or_default().to_owned(),
        ];
        self.0.lock().unwrap().push(parts.join(" "));
        Selection::All
    }
}

/// A request as a gateway has it.
struct Exchange;

impl RequestView for Exchange {
    fn url(&self) -> Option<Cow<'_, str>> {
        Some("lb://myservice/mypath".into())
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == "route").then_some("route-1")
    }
}

#[tokio::test]
async fn scl_283_a_request_carries_its_url_its_attributes_and_a_hint() {
    let sees = Sees::default();
    let lb = fixed(list("a"), |chain| chain.with_request_stage(sees.clone()), RoundRobin::default());
    drop(lb.choose(&Request::of(&Exchange).with_hint("test1")).await.unwrap());
    assert_eq!(*sees.0.lock().unwrap(), ["lb://myservice/mypath route-1 test1"]);
}

/// A round robin that hears how calls end.
#[derive(Clone, Debug, Default)]
struct Hears(Arc<Mutex<Vec<(String, Outcome)>>>);

impl Hears {
    fn take(&self) -> Vec<(String, Outcome)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Policy for Hears {
    fn name(&self) -> Cow<'static, str> {
        "hears".into()
    }
    fn needs(&self) -> Needs {
        Needs::OUTCOMES
    }
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        RoundRobin::default().picker(set)
    }
    fn on_outcome(&self, instance: &InstanceState, outcome: Outcome, _: Option<Duration>) {
        self.0.lock().unwrap().push((instance.instance().id().to_owned(), outcome));
    }
}

/// Balancers whose service `orders` has these instances and this policy.
fn heard(hears: &Hears, instances: Vec<ServiceInstance>) -> LoadBalancers {
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    let hears = hears.clone();
    LoadBalancers::builder(registry).service("orders", |orders| orders.policy(hears)).build().unwrap()
}

#[tokio::test]
async fn scl_284_a_call_that_succeeds_and_one_that_fails_end_once_and_without_an_instance_none_begins() {
    let hears = Hears::default();
    let server = Server::start(ok("body")).await;
    let http = client(&heard(&hears, vec![server.instance("a")]));
    let response = http.get("lb://orders/x").send().await.unwrap();
    assert_eq!(hears.take(), [], "it runs until its body has ended");
    response.text().await.unwrap();
    assert_eq!(hears.take(), [("a".to_owned(), Outcome::Status(200))]);

    // A POST: a call that broke off and may have been processed is not repeated.
    let breaks = Server::start(Act::Break).await;
    let http = client(&heard(&hears, vec![breaks.instance("b")]));
    http.post("lb://orders/x").send().await.unwrap_err();
    assert_eq!(hears.take(), [("b".to_owned(), Outcome::Failure(Failure::Reset))]);

    let http = client(&heard(&hears, Vec::new()));
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    assert!(error.choose_error().is_some() && error.tried().is_empty(), "{error}");
    assert_eq!(hears.take(), []);
}

#[tokio::test]
async fn scl_285_each_attempt_has_exactly_one_end_however_it_ends() {
    let hears = Hears::default();
    let lb = heard(&hears, list("a")).get("orders").unwrap();
    let a = |outcome| [("a".to_owned(), outcome)];
    // That an end is told once is so by type: it takes the lease.
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(503));
    assert_eq!(hears.take(), a(Outcome::Status(503)));
    drop(lb.choose(&Request::EMPTY).await.unwrap());
    assert_eq!(hears.take(), a(Outcome::Cancelled));
    let lease = lb.choose(&Request::EMPTY).await.unwrap();
    tokio::spawn(async move {
        let _lease = lease;
        panic!("on purpose");
    })
    .await
    .unwrap_err();
    assert_eq!(hears.take(), a(Outcome::Cancelled));
    let empty = heard(&hears, Vec::new()).get("orders").unwrap();
    assert!(empty.choose(&Request::EMPTY).await.is_err());
    assert_eq!(hears.take(), []);
}

#[tokio::test]
async fn scl_286_the_host_of_a_route_names_a_service_also_with_an_underscore() {
    let server = Server::start(ok("mine")).await;
    let registry = SimpleDiscovery::new()
        .with_instances("myhost", [server.instance("a")])
        .and_then(|registry| registry.with_instances("my_host", [server.instance("b")]))
        .unwrap();
    let http = client(&LoadBalancers::builder(registry).build().unwrap());
    for (url, id) in [("lb://myhost", "a"), ("lb://my_host", "b"), ("lb://my_host/x", "b")] {
        let response = http.get(url).send().await.unwrap();
        assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), id, "{url}");
    }
    assert_eq!(ServiceId::new("my_host").unwrap().as_str(), "my_host");
    assert_eq!(rewritten(&localhost(false), "lb:http", "lb:http://myhost/x"), "http://localhost:8080/x");
}

#[tokio::test]
async fn scl_288_a_query_that_is_encoded_in_part_stays_as_it_is() {
    let query = "key[]=test=%20key";
    let original = format!("lb://service1/x?{query}");
    let expected = format!("http://localhost:8080/x?{query}");
    assert_eq!(rewritten(&localhost(false), "lb", &original), expected);
    assert_eq!(arrives(&[query]).await, [query]);
}

#[tokio::test]
async fn scl_289_without_a_balancer_lb_is_an_error_and_with_one_it_is_answered() {
    let server = Server::start(ok("")).await;
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(plain.get("lb://orders/x").send().await.unwrap_err().is_builder());
    assert_eq!(server.connections(), 0);
    let http = client(&balancers([server.instance("a")], Properties::default()));
    assert_eq!(http.get("lb://orders/x").send().await.unwrap().status(), 200);
}
