//! Servers that are slow, break off, or ask to come later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::net::*;
use evenkeel::client::reqwest::{CallOptions, Via};
use evenkeel::config::Properties;
use reqwest::Method;
use tokio::sync::Notify;

fn via(response: &reqwest::Response) -> (String, u32) {
    let via = response.extensions().get::<Via>().unwrap();
    (via.instance().id().to_owned(), via.attempts())
}

/// The beginning of an answer, and never the rest.
fn stalls(part: &'static str) -> Act {
    Act::Parts(part, Arc::new(Notify::new()), "")
}

/// Two GETs and two POSTs of which one each meets an instance that does so.
async fn slow(key: &'static str, act: Act) {
    let (slow, live) = (Server::start(act).await, Server::start(ok("")).await);
    let properties = Properties::default().set_for("orders", key, "2s").unwrap();
    let http = client(&balancers([slow.instance("s"), live.instance("b")], properties));
    let mut attempts = 0;
    for _ in 0..2 {
        let (id, made) = via(&http.get("lb://orders/x").send().await.unwrap());
        assert_eq!(id, "b", "{key}");
        attempts += made;
    }
    assert_eq!((attempts, slow.served(), live.served()), (3, 1, 2), "{key}");
    let mut errors = Vec::new();
    for _ in 0..2 {
        errors.extend(http.post("lb://orders/x").body("once").send().await.err());
    }
    assert_eq!(errors.len(), 1, "{key}: a POST may have had its effect");
    assert!(errors[0].is_timeout() && errors[0].tried()[0].id() == "s", "{}", errors[0]);
    assert_eq!(http.balancers().in_flight(), 0);
}

#[tokio::test]
async fn an_instance_whose_head_does_not_come_is_left_for_another() {
    tokio::join!(
        slow("read-timeout", Act::Hang),
        slow("read-timeout", stalls("HTTP/1.1 200 OK\r\ncontent-le")),
        slow("retry.per-try-timeout", Act::Hang),
        slow("retry.per-try-timeout", stalls("HTTP/1.1 200 OK\r\nx-a: b\r\n")),
    );
}

#[tokio::test]
async fn a_body_that_stalls_ends_with_the_read_time_out() {
    let server = Server::start(stalls("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")).await;
    let properties = Properties::default().set("read-timeout", "2s").unwrap();
    let balancers = balancers([server.instance("a")], properties);
    let response = client(&balancers).get("lb://orders/x").send().await.unwrap();
    assert_eq!(balancers.in_flight(), 1);
    let error = response.bytes().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn what_make_says_of_reading_holds_unless_a_property_does() {
    for (property, limit) in [(None, 300), (Some("900ms"), 900)] {
        let server = Server::start(Act::Hang).await;
        let properties = Properties::default();
        let properties = match property {
            Some(limit) => properties.set("read-timeout", limit).unwrap(),
            None => properties,
        };
        let own = || reqwest::Client::builder().read_timeout(Duration::from_millis(300));
        let http = balancers([server.instance("a")], properties).reqwest(move |_| own()).unwrap();
        let start = Instant::now();
        let error = http.post("lb://orders/x").send().await.unwrap_err();
        assert!(error.is_timeout() && start.elapsed() >= Duration::from_millis(limit), "{error}");
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_in_its_body_is_not_repeated() {
    let gate = Arc::new(Notify::new());
    let act = Act::Parts("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello", Arc::clone(&gate), "");
    let (breaking, live) = (Server::start(act).await, Server::start(ok("")).await);
    let http = over([breaking.instance("r"), live.instance("b")]);
    let mut broken = 0;
    for _ in 0..2 {
        let response = http.get("lb://orders/x").send().await.unwrap();
        gate.notify_one();
        broken += usize::from(response.bytes().await.is_err());
    }
    assert_eq!((broken, breaking.served(), live.served(), http.balancers().in_flight()), (1, 1, 1, 0));
}

#[tokio::test]
async fn an_instance_that_asks_to_come_later_is_left_alone_and_another_is_asked_at_once() {
    let later =
        Act::Answer("HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy".to_owned());
    let (busy, live) = (Server::start(later.clone()).await, Server::start(ok("")).await);
    let properties = Properties::default().set("retry.retryable-status-codes", 503).unwrap();
    let http = client(&balancers([busy.instance("a"), live.instance("b")], properties.clone()));
    let start = Instant::now();
    for _ in 0..2 {
        assert_eq!(via(&http.get("lb://orders/x").send().await.unwrap()).0, "b");
    }
    assert_eq!((busy.served(), live.served()), (1, 2));
    assert!(start.elapsed() < Duration::from_secs(7), "it was waited for");
    // Nobody else is there, and the caller has no time to wait: it gets the answer, with its body.
    let http = client(&balancers([busy.instance("a")], properties));
    let response = http.get("lb://orders/x").timeout(Duration::from_secs(5)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), via(&response).1), (503, 1));
    assert_eq!(response.text().await.unwrap(), "busy");
}

#[tokio::test]
async fn hints_templates_and_costs_go_along_with_a_finished_request_too() {
    let (blue, green) = (Server::start(Act::Hang).await, Server::start(Act::Hang).await);
    let hinted = |server: &Server, hint: &str| {
        server.instance(hint).to_builder().with_metadata("hint", hint).build().unwrap()
    };
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let http = client(&balancers([hinted(&blue, "blue"), hinted(&green, "green")], properties));
    let options = CallOptions::default().with_hint("blue").with_cost(500).with_template("/x/{id}");
    assert_eq!((options.hint(), options.cost(), options.template()), (Some("blue"), 500, Some("/x/{id}")));
    for finished in [true, false] {
        let (http, options) = (http.clone(), options.clone());
        let call = tokio::spawn(async move {
            if finished {
                let request = reqwest::Request::new(Method::GET, "lb://orders/x".parse().unwrap());
                http.execute_with(request, &options).await.map(drop)
            } else {
                http.get("lb://orders/x").options(options).send().await.map(drop)
            }
        });
        let expected = if finished { 1 } else { 2 };
        eventually("the request", || blue.served() == expected).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!((blue.served(), green.served(), http.balancers().in_flight()), (2, 0, 0));
    let held = http.clone();
    let call =
        tokio::spawn(async move { held.get("lb://orders/x").hint("green").cost(500).send().await.map(drop) });
    eventually("the request", || green.served() == 1).await;
    assert_eq!(http.balancers().in_flight(), 500, "calls in flight are counted by their cost");
    call.abort();
}
