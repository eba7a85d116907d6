//! 3.19 Filter and retry, reactive: cases 231 to 251, and 218 and 220, which need an answer from a socket.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::reqwest::Client;
use evenkeel::config::{Properties, RetryProperties, RetryableError};
use evenkeel::{Failure, LoadBalancers};

use crate::net::{Act, Refusing, Server, balancers, by, client, ok, over, status};
use crate::support::calls::{End, Heard, retrying, scripted};

fn properties(pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().fold(Properties::default(), |all, (key, value)| all.set(key, value).unwrap())
}

fn twice() -> RetryProperties {
    RetryProperties::default().with_max_retries_on_same_service_instance(1)
}

/// The instances that a call goes to whose attempts all end so.
async fn sent(retry: RetryProperties, method: &str, end: End) -> Vec<String> {
    scripted(&retrying("a b c", retry), method, &[end]).await.1
}

const RESET: End = End::Fail(Failure::Reset);

#[tokio::test]
async fn scl_231_a_known_service_answers() {
    let server = Server::start(ok("from a real instance")).await;
    let response = over([server.instance("a")]).get("lb://orders/hello").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "from a real instance");
}

#[tokio::test]
async fn scl_232_no_instance_is_an_error_of_its_own() {
    let error = over([]).get("lb://orders/hello").send().await.unwrap_err();
    assert!(error.choose_error().is_some() && error.tried().is_empty());
    assert!(error.to_string().contains("orders"), "{error}");
}

#[tokio::test]
async fn scl_233_a_url_without_a_host_is_an_error_that_quotes_it() {
    for url in ["lb:///xxx", "http:///", "/xxx"] {
        let error = over([]).get(url).send().await.unwrap_err();
        assert!(error.is_invalid_url() && error.to_string().contains(url), "{error}");
    }
}

#[tokio::test]
async fn scl_234_it_works_without_processors() {
    let (answer, sent) = scripted(&retrying("a", twice()), "GET", &[End::Status(200)]).await;
    assert_eq!((answer.unwrap().response.status, sent.len()), (200, 1));
}

/// A client over `instances` whose processor writes down what it hears.
fn heard(server: &Server, properties: Properties) -> (Client, Arc<Heard>, LoadBalancers) {
    let heard = Arc::new(Heard::default());
    let registry =
        evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", [server.instance("a")]).unwrap();
    let balancers =
        LoadBalancers::builder(registry).properties(properties).lifecycle_arc(heard.clone()).build().unwrap();
    (client(&balancers), heard, balancers)
}

#[tokio::test]
async fn scl_235_processors_see_the_configured_hint_and_the_method() {
    let server = Server::start(ok("")).await;
    let (http, heard, _balancers) = heard(&server, properties(&[("hint.orders", "blue")]));
    http.get("lb://orders/x").send().await.unwrap().text().await.unwrap();
    assert_eq!(
        heard.take(),
        ["start GET blue", "request 1 a blue", "attempt 1 a status 200", "complete success a 200 GET -"]
    );
}

#[tokio::test]
async fn scl_236_a_failure_goes_twice_to_each_of_two_instances() {
    assert_eq!(sent(twice(), "GET", RESET).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn scl_237_a_listed_status_does_the_same() {
    let retry = twice().with_retryable_status_codes([404]);
    assert_eq!(sent(retry, "GET", End::Status(404)).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn scl_238_success_is_sent_once() {
    assert_eq!(sent(twice(), "GET", End::Status(200)).await, ["a"]);
}

#[tokio::test]
async fn scl_239_a_post_is_not_repeated_for_its_status() {
    let retry = twice().with_retryable_status_codes([404]);
    assert_eq!(sent(retry, "POST", End::Status(404)).await, ["a"]);
}

#[tokio::test]
async fn scl_240_a_post_is_with_all_operations() {
    let retry = twice().with_retryable_status_codes([404]).with_retry_on_all_operations(true);
    assert_eq!(sent(retry.clone(), "POST", End::Status(404)).await, ["a", "a", "b", "b"]);
    assert_eq!(sent(retry, "POST", RESET).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn scl_241_an_error_that_is_not_listed_is_sent_once() {
    assert_eq!(sent(twice(), "GET", End::Fail(Failure::Other)).await, ["a"]);
}

#[tokio::test]
async fn scl_242_all_exceptions_are_all_kinds() {
    let retry = twice().with_retry_on_all_exceptions(true);
    for kind in [Failure::Connect, Failure::Timeout, Failure::Reset, Failure::Other] {
        assert_eq!(sent(retry.clone(), "GET", End::Fail(kind)).await, ["a", "a", "b", "b"], "{kind:?}");
    }
}

#[tokio::test]
async fn scl_243_a_listed_kind_is_repeated() {
    let retry = twice().with_retryable_exceptions([RetryableError::Other]);
    assert_eq!(sent(retry.clone(), "GET", End::Fail(Failure::Other)).await, ["a", "a", "b", "b"]);
    assert_eq!(sent(retry, "GET", RESET).await, ["a"], "the list replaces the default");
}

#[tokio::test]
async fn scl_244_statuses_are_repeated_whatever_kinds_are_listed() {
    let retry = twice().with_retryable_exceptions([]).with_retryable_status_codes([404]);
    assert_eq!(sent(retry, "GET", End::Status(404)).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn scl_245_an_instance_that_fails_every_other_call() {
    let server = Server::start(by(|n| if n % 2 == 1 { status(500, "no") } else { ok("Hello World!") })).await;
    let retry =
        [("retry.retryable-status-codes", "500"), ("retry.max-retries-on-same-service-instance", "1")];
    let http = client(&balancers([server.instance("a")], properties(&retry)));
    for _ in 0..4 {
        let response = http.get("lb://orders/hello").send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.text().await.unwrap().as_str()),
            (200, "Hello World!")
        );
    }
    assert_eq!(server.served(), 8);
}

#[tokio::test]
async fn scl_246_one_dead_and_one_good_instance() {
    let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
    let retry = [("retry.backoff.enabled", "true"), ("retry.max-retries-on-same-service-instance", "1")];
    let http = client(&balancers([dead.instance("a"), live.instance("b")], properties(&retry)));
    for _ in 0..2 {
        assert_eq!(http.get("lb://orders/").send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn scl_248_a_post_that_broke_off_is_not_sent_again() {
    assert_eq!(sent(twice(), "POST", RESET).await, ["a"]);
    // And on the wire.
    let (broken, live) = (Server::start(Act::Break).await, Server::start(ok("")).await);
    let http = over([broken.instance("a"), live.instance("b")]);
    for _ in 0..4 {
        let _ = http.post("lb://orders/").body("once").send().await;
    }
    assert_eq!((broken.served(), live.served()), (2, 2));
}

#[tokio::test]
async fn scl_249_the_last_real_error_is_the_callers() {
    let (answer, _) = scripted(&retrying("a b", twice()), "GET", &[RESET]).await;
    let error = answer.unwrap_err();
    assert_eq!(error.call_error().unwrap().to_string(), "attempt 4 failed");
    assert_eq!(error.tried().len(), 4);
    assert!(error.to_string().starts_with("a call to service \"orders\" failed (tried a"), "{error}");
}

#[tokio::test]
async fn scl_250_a_caller_who_gives_up_is_told_as_cancelled() {
    let server = Server::start(Act::Hang).await;
    let (http, heard, balancers) = heard(&server, Properties::default());
    let call = http.get("lb://orders/x").send();
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
    assert_eq!(
        heard.take(),
        ["start GET -", "request 1 a -", "attempt 1 a cancelled", "complete cancelled a - GET -"]
    );
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn scl_251_retries_are_on_unless_they_are_switched_off() {
    assert_eq!(sent(RetryProperties::default(), "GET", RESET).await, ["a", "b"]);
    assert_eq!(sent(RetryProperties::default().with_enabled(false), "GET", RESET).await, ["a"]);
    // A client that nobody made a balanced one knows no service.
    assert!(reqwest::Client::new().get("lb://orders/").send().await.is_err());
}

#[tokio::test]
async fn scl_218_the_last_response_keeps_status_headers_and_body() {
    let server = Server::start(status(503, "try later")).await;
    let http =
        client(&balancers([server.instance("a")], properties(&[("retry.retryable-status-codes", "503")])));
    let response = http.get("lb://orders/").send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["x-from"], "server");
    assert_eq!(response.text().await.unwrap(), "try later");
    assert_eq!(server.served(), 2);
}

#[tokio::test]
async fn scl_220_a_host_with_an_underscore_is_a_service_like_any_other() {
    let server = Server::start(ok("")).await;
    let registry = evenkeel::discovery::SimpleDiscovery::new()
        .with_instances("foo_underscore", [server.instance("a")])
        .unwrap();
    let http = client(&LoadBalancers::builder(registry).build().unwrap());
    assert_eq!(http.get("lb://foo_underscore/").send().await.unwrap().status(), 200);
}
