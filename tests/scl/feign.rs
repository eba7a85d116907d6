//! 3.23 `OpenFeign`: cases 290 to 300, with the reqwest client in its place.

use std::sync::Arc;

use evenkeel::LoadBalancers;
use evenkeel::client::{Outgoing, RequestTransformer};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{Failure, ServiceInstance};
use http::HeaderValue;

use crate::net::{Act, Server, client, header, ok, over, status};
use crate::support::calls::{End, Heard, retrying, scripted};

fn named(server: &Server, properties: Properties) -> LoadBalancers {
    let registry = SimpleDiscovery::new().with_instances("test", [server.instance("a")]).unwrap();
    let properties = properties.set_for("test", "enabled", true).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

#[tokio::test]
async fn scl_290_the_host_is_the_service() {
    let server = Server::start(ok("")).await;
    client(&named(&server, Properties::default())).get("http://test/path").send().await.unwrap();
    assert!(server.heads()[0].starts_with("GET /path "), "{}", server.heads()[0]);
}

#[tokio::test]
async fn scl_291_a_url_without_a_host_is_an_error_that_quotes_it() {
    let server = Server::start(ok("")).await;
    let http = client(&named(&server, Properties::default()));
    let error = http.get("lb:///path").send().await.unwrap_err();
    assert!(error.is_invalid_url() && error.to_string().contains("lb:///path"), "{error}");
}

#[tokio::test]
async fn scl_292_no_instance_is_a_typed_error_that_names_the_service() {
    let balancers = LoadBalancers::builder(SimpleDiscovery::new()).build().unwrap();
    let error = client(&balancers).get("lb://test/path").send().await.unwrap_err();
    assert!(error.choose_error().is_some() && error.to_string().contains("\"test\""), "{error}");
}

#[derive(Debug)]
struct Sets(&'static str);

impl RequestTransformer for Sets {
    fn transform(&self, request: &mut Outgoing<'_>, _: &ServiceInstance) {
        request.headers_mut().insert(self.0, HeaderValue::from_static("set"));
    }
}

#[tokio::test]
async fn scl_293_method_url_headers_body_and_both_transformers_arrive() {
    let server = Server::start(ok("")).await;
    let http = client(&named(&server, Properties::default()))
        .with_transformer(Sets("x-one"))
        .with_transformer(Sets("x-two"));
    http.put("lb://test/p?q=1").header("x-own", "mine").body("payload").send().await.unwrap();
    let head = &server.heads()[0];
    assert!(head.starts_with("PUT /p?q=1 "), "{head}");
    let values = ["x-own", "x-one", "x-two", "content-length"].map(|name| header(head, name).unwrap());
    assert_eq!(values, ["mine", "set", "set", "7"]);
}

#[tokio::test]
async fn scl_294_processors_see_the_hint_at_the_start_and_the_status_at_the_end() {
    let server = Server::start(ok("")).await;
    let heard = Arc::new(Heard::default());
    let registry = SimpleDiscovery::new().with_instances("test", [server.instance("a")]).unwrap();
    let balancers = LoadBalancers::builder(registry)
        .properties(Properties::default().set("hint.test", "blue").unwrap())
        .lifecycle_arc(heard.clone())
        .build()
        .unwrap();
    client(&balancers).get("lb://test/path").send().await.unwrap().bytes().await.unwrap();
    let events = heard.take();
    assert_eq!(events[..2], ["start GET blue", "request 1 a blue"]);
    assert_eq!(events[3], "complete success a 200 GET -");
}

#[tokio::test]
async fn scl_295_without_an_instance_the_logical_address_is_never_called() {
    let balancers = LoadBalancers::builder(SimpleDiscovery::new())
        .properties(Properties::default().set("retry.max-retries-on-next-service-instance", 3).unwrap())
        .build()
        .unwrap();
    let error = client(&balancers).get("lb://localhost/path").send().await.unwrap_err();
    assert!(error.choose_error().is_some() && error.reqwest_error().is_none(), "{error}");
}

/// The instances that a call with 503 as its answers goes to.
async fn sent(same: u32, next: u32) -> Vec<String> {
    let retry = evenkeel::config::RetryProperties::default()
        .with_retryable_status_codes([503])
        .with_max_retries_on_same_service_instance(same)
        .with_max_retries_on_next_service_instance(next);
    scripted(&retrying("a b", retry), "GET", &[End::Status(503)]).await.1
}

#[tokio::test]
async fn scl_296_to_298_the_attempts_of_a_listed_status() {
    assert_eq!(sent(0, 1).await, ["a", "b"]);
    assert_eq!(sent(1, 0).await, ["a", "a"]);
    assert_eq!(sent(1, 1).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn scl_299_with_retries_off_the_io_error_is_the_callers() {
    let server = Server::start(Act::Break).await;
    let properties = Properties::default().set("retry.enabled", false).unwrap();
    let error = client(&named(&server, properties)).get("lb://test/").send().await.unwrap_err();
    let cause = error.reqwest_error().unwrap();
    assert_eq!(evenkeel::client::reqwest::failure_of(cause), Failure::Reset);
    assert_eq!((server.served(), error.tried().len()), (1, 1));
}

#[tokio::test]
async fn scl_300_the_body_of_the_last_answer_can_be_read() {
    let server = Server::start(status(503, "foo")).await;
    let properties = Properties::default().set("retry.retryable-status-codes", "503").unwrap();
    let response = client(&named(&server, properties)).get("lb://test/").send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (503, "foo"));
    assert_eq!(server.served(), 2);
}

#[tokio::test]
async fn a_call_whose_time_is_up_is_not_repeated() {
    let (hang, live) = (Server::start(Act::Hang).await, Server::start(ok("")).await);
    let http = over([hang.instance("a"), live.instance("b")]);
    let mut failed = 0;
    for _ in 0..2 {
        let sent = http.get("lb://orders/").timeout(std::time::Duration::from_millis(300)).send().await;
        failed += u32::from(sent.is_err_and(|error| error.tried().len() == 1));
    }
    assert_eq!((failed, live.served(), hang.served()), (1, 1, 1));
}
