//! 3.7 Instance cookie on the outgoing request: cases 64 to 73.

use evenkeel::client::LoadBalancerClient;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, Outcome, Request, ServiceInstance};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method};

use crate::net::{Server, balancers, client, header, ok};
use crate::support::instance;

const FLAG: &str = "sticky-session.add-service-instance-cookie";

fn flagged() -> Properties {
    Properties::default().set(FLAG, true).unwrap()
}

fn headers(lines: &[&str]) -> HeaderMap {
    lines.iter().map(|line| (COOKIE, HeaderValue::from_str(line).unwrap())).collect()
}

/// The lines of `Cookie` with which a request with `given` reaches `instance`.
async fn sent(properties: Properties, instance: ServiceInstance, given: &[&str]) -> Vec<String> {
    let registry = SimpleDiscovery::new().with_instances("orders", [instance]).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(properties, registry).unwrap());
    let judge = |_: Result<&HeaderMap, &evenkeel::TargetError>| Outcome::Success;
    let answer = client
        .execute("orders", &Request::EMPTY, judge, |attempt| {
            let mut headers = headers(given);
            let prepared = attempt.prepare(&Method::GET, "lb://orders/", &mut headers);
            async move { prepared.map(|_| headers) }
        })
        .await
        .unwrap();
    let lines = answer.response.get_all(COOKIE).iter();
    lines.map(|line| line.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn scl_064_the_cookie_of_the_instance_alone() {
    assert_eq!(sent(flagged(), instance("test-01"), &[]).await, ["sc-lb-instance-id=test-01"]);
}

#[tokio::test]
async fn scl_065_behind_the_cookies_that_are_there() {
    let lines = sent(flagged(), instance("test-01"), &["testCookieName=testCookieValue"]).await;
    assert_eq!(lines, ["testCookieName=testCookieValue; sc-lb-instance-id=test-01"]);
    let lines = sent(flagged(), instance("x"), &["a=1; b", " c=3;; "]).await;
    assert_eq!(lines, ["a=1; b; c=3; sc-lb-instance-id=x"]);
}

#[tokio::test]
async fn scl_066_without_an_instance_nothing_is_sent() {
    let client =
        LoadBalancerClient::new(LoadBalancers::from_properties(flagged(), SimpleDiscovery::new()).unwrap());
    let mut attempts = 0;
    let judge = |_: Result<&(), &std::io::Error>| Outcome::Success;
    let send = |_: evenkeel::client::Attempt<'_>| {
        attempts += 1;
        async { Ok(()) }
    };
    assert!(client.execute("orders", &Request::EMPTY, judge, send).await.is_err());
    assert_eq!(attempts, 0);
}

#[tokio::test]
async fn scl_067_to_068_a_cookie_without_a_name_is_none() {
    // A blank name is refused where it is written.
    for name in ["", "  "] {
        let error = flagged().set("sticky-session.instance-id-cookie-name", name).unwrap_err();
        assert!(error.to_string().contains("sticky-session.instance-id-cookie-name"), "{error}");
    }
    // One that no cookie can have leaves the request as it is.
    for name in ["a b", "a;b", "a=b"] {
        let properties = flagged().set("sticky-session.instance-id-cookie-name", name).unwrap();
        assert_eq!(sent(properties, instance("a"), &["k=v"]).await, ["k=v"], "{name}");
    }
}

#[tokio::test]
async fn scl_069_to_071_what_is_not_balanced_is_untouched_and_everything_is_sent_once() {
    let server = Server::start(ok("")).await;
    // A URL with an address: there is no choice, so there is no cookie.
    let http = client(&balancers([server.instance("test-01")], flagged()));
    http.get(format!("http://{}/", server.address)).send().await.unwrap();
    assert_eq!((server.served(), header(&server.heads()[0], "cookie")), (1, None));
    // No property of sticky sessions at all.
    let plain = client(&balancers([server.instance("test-01")], Properties::default()));
    plain.get("lb://orders/").send().await.unwrap();
    assert_eq!((server.served(), header(&server.heads()[1], "cookie")), (2, None));
    http.get("lb://orders/").header("cookie", "a=1").send().await.unwrap();
    assert_eq!(server.served(), 3);
    assert_eq!(header(&server.heads()[2], "cookie"), Some("a=1; sc-lb-instance-id=test-01"));
}

#[tokio::test]
async fn scl_072_it_is_off_by_default() {
    assert_eq!(sent(Properties::default(), instance("a"), &["k=v"]).await, ["k=v"]);
    assert!(sent(Properties::default(), instance("a"), &[]).await.is_empty());
}

#[tokio::test]
async fn scl_073_an_older_value_of_the_name_is_replaced() {
    let lines = sent(
        flagged(),
        instance("new"),
        &["sc-lb-instance-id=old; a=1", "b=2; sc-lb-instance-id=older; sc-lb-instance-id-x=3"],
    )
    .await;
    assert_eq!(lines, ["a=1; b=2; sc-lb-instance-id-x=3; sc-lb-instance-id=new"]);
}

#[tokio::test]
async fn a_cookie_that_must_not_be_shown_is_not_shown_behind_another_either() {
    let registry = SimpleDiscovery::new().with_instances("orders", [instance("a")]).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(flagged(), registry).unwrap());
    let judge = |_: Result<&HeaderMap, &evenkeel::TargetError>| Outcome::Success;
    for sensitive in [true, false] {
        let send = |attempt: evenkeel::client::Attempt<'_>| {
            let mut headers = headers(&["session=secret", "b=2"]);
            headers.get_mut(COOKIE).unwrap().set_sensitive(sensitive);
            let prepared = attempt.prepare(&Method::GET, "lb://orders/", &mut headers);
            async move { prepared.map(|_| headers) }
        };
        let answer = client.execute("orders", &Request::EMPTY, judge, send).await.unwrap();
        assert_eq!(answer.response[COOKIE], "session=secret; b=2; sc-lb-instance-id=a");
        assert_eq!(answer.response[COOKIE].is_sensitive(), sensitive);
    }
}

#[tokio::test]
async fn with_a_secret_the_cookie_holds_no_id_and_the_client_sticks_to_it() {
    let properties = flagged()
        .set("sticky-session.secret", "hidden")
        .unwrap()
        .set("configurations", "request-based-sticky-session")
        .unwrap();
    let lines = sent(properties.clone(), instance("test-01"), &[]).await;
    let value = lines[0].strip_prefix("sc-lb-instance-id=").unwrap();
    assert!(value.len() == 32 && !value.contains("test-01"), "{value}");
}
