//! What is repeated, with which body, and that nobody looks up the name of a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::net::*;
use evenkeel::LoadBalancers;
use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::Properties;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Body, Response};

fn attempts(response: &Response) -> u32 {
    response.extensions().get::<Via>().unwrap().attempts()
}

/// `a` first, then `b`: with two of them, every second call begins at `a`.
async fn from_a(http: &Client, a: &Server, body: impl Fn() -> Body) -> Response {
    for _ in 0..2 {
        let before = a.served();
        let request = http.post("lb://orders/x").header("content-type", "application/json");
        let response = request.body(body()).send().await.unwrap();
        if a.served() > before {
            return response;
        }
    }
    panic!("nobody began at a");
}

#[tokio::test]
async fn case_023_a_post_is_repeated_only_if_it_may_be_and_with_the_same_bytes() {
    let json = format!("{{\"text\": \"{}\"}}", "x".repeat(1_024));
    let buffered = || Body::from(json.clone());
    let streamed = || {
        let bytes = json.clone().into_bytes();
        Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(bytes)]))
    };
    let by_default = Properties::default().set("retry.retryable-status-codes", 503).unwrap();
    let all = by_default.clone().set("retry.retry-on-all-operations", true).unwrap();
    for (properties, stream, status, made) in
        [(&by_default, false, 503, 1), (&all, false, 200, 2), (&all, true, 503, 1)]
    {
        let (a, b) = (Server::start(status_503()).await, Server::start(ok("")).await);
        let http = client(&balancers([a.instance("a"), b.instance("b")], properties.clone()));
        let response =
            if stream { from_a(&http, &a, streamed).await } else { from_a(&http, &a, buffered).await };
        assert_eq!((response.status().as_u16(), attempts(&response)), (status, made));
        if status == 503 {
            assert_eq!(response.headers()["x-from"], "server");
            assert_eq!(response.text().await.unwrap(), "busy");
        }
        assert!(a.bodies().iter().chain(&b.bodies()).all(|body| *body == json));
        let whole = json.len().to_string();
        let lengths: Vec<_> = a
            .heads()
            .iter()
            .chain(&b.heads())
            .map(|head| header(head, "content-length").map(str::to_owned))
            .collect();
        assert!(stream || lengths.iter().all(|length| length.as_ref() == Some(&whole)), "{lengths:?}");
        assert_eq!(http.balancers().in_flight(), 0);
    }
}

fn status_503() -> Act {
    status(503, "busy")
}

#[tokio::test]
async fn a_body_that_is_gone_leaves_the_answer_that_there_was_whatever_is_wrong_elsewhere() {
    let a = Server::start(status_503()).await;
    let properties = Properties::default()
        .set("retry.retryable-status-codes", 503)
        .and_then(|properties| properties.set("retry.retry-on-all-operations", true))
        .unwrap();
    let balancers = balancers([a.instance("a"), at("127.0.0.1:9".parse().unwrap(), "b")], properties);
    let make = |instance: &evenkeel::ServiceInstance| {
        let builder = reqwest::Client::builder();
        if instance.id() == "b" { builder.user_agent("\n") } else { builder }
    };
    let http = balancers.reqwest(make).unwrap();
    let streamed = || Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("part")]));
    let mut answered = 0;
    for _ in 0..4 {
        let before = a.served();
        let result = http.post("lb://orders/x").body(streamed()).send().await;
        if a.served() > before {
            let response = result.unwrap();
            assert_eq!((response.status().as_u16(), attempts(&response)), (503, 1));
            answered += 1;
        } else {
            assert!(result.unwrap_err().to_string().contains("builder"));
        }
    }
    assert_eq!(answered, 2);
}

/// Counts who is looked up, and finds nobody.
#[derive(Clone, Debug, Default)]
struct Spy(Arc<AtomicUsize>);

impl Resolve for Spy {
    fn resolve(&self, name: Name) -> Resolving {
        self.0.fetch_add(1, Ordering::SeqCst);
        let name = name.as_str().to_owned();
        Box::pin(async move { Err::<Addrs, _>(format!("{name} was looked up").into()) })
    }
}

fn spied(balancers: &LoadBalancers, spy: &Spy) -> Client {
    let spy = spy.clone();
    let inner = spy.clone();
    let http = balancers.reqwest(move |_| reqwest::Client::builder().dns_resolver(inner.clone())).unwrap();
    http.with_plain(reqwest::Client::builder().dns_resolver(spy)).unwrap()
}

#[tokio::test]
async fn case_024_a_retry_with_one_instance_goes_to_its_address_and_nobody_looks_up_the_name() {
    for (same, next) in [(1, 0), (0, 1)] {
        for always in [false, true] {
            let act = by(move |number| if always || number == 1 { Act::Break } else { ok("") });
            let server = Server::start(act).await;
            let properties = Properties::default()
                .set("retry.max-retries-on-same-service-instance", same)
                .and_then(|properties| properties.set("retry.max-retries-on-next-service-instance", next))
                .unwrap();
            let spy = Spy::default();
            let http = spied(&balancers([server.instance("a")], properties), &spy);
            match http.get("http://orders/x").send().await {
                Ok(response) => assert_eq!((attempts(&response), always), (2, false)),
                Err(error) => {
                    assert!(always && error.tried().iter().all(|tried| tried.id() == "a"), "{error}");
                    assert_eq!(error.tried().len(), 2);
                    assert!(!error.reqwest_error().unwrap().is_connect(), "the connection broke: {error:?}");
                    assert!(error.to_string().contains("a (127.0.0.1:"), "{error}");
                }
            }
            assert_eq!((server.served(), spy.0.load(Ordering::SeqCst)), (2, 0), "{same} {next} {always}");
        }
    }
    // The spy sees what is looked up: a host that is no service.
    let spy = Spy::default();
    let http = spied(&balancers([], Properties::default()), &spy);
    let error = http.get("http://elsewhere.test/x").send().await.unwrap_err();
    assert!(error.reqwest_error().is_some() && spy.0.load(Ordering::SeqCst) == 1, "{error}");
}

#[tokio::test]
async fn case_035_after_calls_that_were_dropped_or_refused_nothing_is_in_flight() {
    let (a, b) = (Server::start(on(hangs)).await, Server::start(on(hangs)).await);
    let dead = Refusing::new();
    let properties = Properties::default().set("policy", "least-request").unwrap();
    let instances = [a.instance("a"), b.instance("b"), dead.instance("dead")];
    let balancers = balancers(instances, properties);
    let http = client(&balancers);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let http = http.clone();
            tokio::spawn(async move { http.get("lb://orders/hang").send().await.map(drop) })
        })
        .collect();
    eventually("all of them", || a.served() + b.served() == 50).await;
    assert_eq!(balancers.in_flight(), 50);
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(balancers.in_flight(), 0);
    let before = (a.served(), b.served());
    for _ in 0..100 {
        http.post("lb://orders/x").send().await.unwrap();
    }
    let (to_a, to_b) = (a.served() - before.0, b.served() - before.1);
    assert_eq!((to_a + to_b, balancers.in_flight()), (100, 0));
    assert!(to_a.abs_diff(to_b) <= 50, "{to_a} and {to_b}: by chance, where nobody has more to do");
}

#[tokio::test]
async fn case_035_a_body_that_streams_counts_until_it_ends() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let streams = Act::Parts(part, Arc::clone(&gate), "world");
    let act = move |target: &str| if target == "/stream" { streams.clone() } else { ok("") };
    let (a, b) = (Server::start(on(act.clone())).await, Server::start(on(act)).await);
    let properties = Properties::default().set("policy", "least-request").unwrap();
    let balancers = balancers([a.instance("a"), b.instance("b")], properties);
    let http = client(&balancers);
    // Its head is there at once; its body takes its time.
    let response = http.get("lb://orders/stream").send().await.unwrap();
    let (busy, idle) = if a.served() == 1 { (&a, &b) } else { (&b, &a) };
    for _ in 0..9 {
        http.get("lb://orders/x").send().await.unwrap();
    }
    assert_eq!((busy.served(), idle.served(), balancers.in_flight()), (1, 9, 1));
    gate.notify_one();
    assert_eq!(response.text().await.unwrap(), "helloworld");
    assert_eq!(balancers.in_flight(), 0);
}

fn hangs(target: &str) -> Act {
    if target == "/hang" { Act::Hang } else { ok("") }
}
