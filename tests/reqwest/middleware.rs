//! Middlewares over a client that is there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::net::*;
use evenkeel::client::reqwest::middleware::{Balance, Error, Retry, Unsupported};
use evenkeel::client::reqwest::{CallOptions, Via};
use evenkeel::config::Properties;
use evenkeel::{LoadBalancers, async_trait};
use http::Extensions;
use reqwest::{Body, Method, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};

fn finished() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn over_both(balancers: &LoadBalancers) -> ClientWithMiddleware {
    balancers.middleware(finished()).build()
}

fn via(response: &Response) -> (String, u32) {
    let via = response.extensions().get::<Via>().unwrap();
    (via.instance().id().to_owned(), via.attempts())
}

/// Counts what passes.
#[derive(Clone, Default)]
struct Passes(Arc<AtomicUsize>);

#[async_trait]
impl Middleware for Passes {
    async fn handle(
        &self,
        request: Request,
        all: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(request, all).await
    }
}

/// Sends it again as often as it may, and knows nothing of instances.
struct Again(usize);

#[async_trait]
impl Middleware for Again {
    async fn handle(
        &self,
        request: Request,
        all: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        for _ in 0..self.0 {
            let copy = request.try_clone().unwrap();
            match next.clone().run(copy, all).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                _ => {}
            }
        }
        next.run(request, all).await
    }
}

#[tokio::test]
async fn one_attempt_is_one_choice_and_the_lease_ends_with_the_body() {
    let (dead, live) = (Refusing::new(), Server::start(ok("body")).await);
    let balancers = balancers([dead.instance("a"), live.instance("b")], Properties::default());
    let (outside, between, inside) = (Passes::default(), Passes::default(), Passes::default());
    let http = ClientBuilder::new(finished())
        .with(outside.clone())
        .with(Retry::new(&balancers))
        .with(between.clone())
        .with(Balance::new(&balancers))
        .with(inside.clone())
        .build();
    let mut attempts = 0;
    for url in ["lb://orders/x", "http://orders/x", "lb://orders/x", "lb://orders/x"] {
        let response = http.post(url).body("once").send().await.unwrap();
        let (id, made) = via(&response);
        attempts += made;
        assert_eq!((&*id, balancers.in_flight()), ("b", 1));
        assert_eq!(response.text().await.unwrap(), "body");
        assert_eq!(balancers.in_flight(), 0);
    }
    let counts = [&outside, &between, &inside].map(|passes| passes.0.load(Ordering::SeqCst));
    assert_eq!(
        (attempts, counts, live.served()),
        (5, [4, 5, 5], 4),
        "the dead one was tried once, and is skipped"
    );
    // What names no service goes its way.
    let response = http.get(format!("http://{}/y", live.address)).send().await.unwrap();
    assert!(response.extensions().get::<Via>().is_none());
    assert_eq!(live.lines().pop().unwrap(), "GET /y");
}

#[tokio::test]
async fn what_is_repeated_and_what_is_not_is_as_in_the_client_of_its_own() {
    for (method, stream, fails) in [
        (Method::GET, false, 0),
        (Method::OPTIONS, true, 1),
        (Method::POST, false, 1),
        (Method::HEAD, false, 0),
    ] {
        let (breaking, live) = (Server::start(Act::Break).await, Server::start(ok("")).await);
        let balancers = balancers([breaking.instance("r"), live.instance("b")], Properties::default());
        let http = over_both(&balancers);
        let streamed = || Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("once")]));
        let body = || if stream { streamed() } else { Body::from("once") };
        let mut errors = Vec::new();
        for _ in 0..2 {
            errors.extend(http.request(method.clone(), "lb://orders/x").body(body()).send().await.err());
        }
        assert_eq!((errors.len(), live.served()), (fails, 2 - fails), "{method} {stream}");
        for error in &errors {
            let error = Error::of(error).unwrap();
            assert_eq!(error.tried()[0].id(), "r");
            assert!(error.reqwest_error().is_some() && error.to_string().contains("\"orders\""), "{error}");
        }
        assert_eq!(balancers.in_flight(), 0);
    }
    let silent = Server::start(Act::Hang).await;
    let balancers = balancers([silent.instance("s")], Properties::default());
    let sent = over_both(&balancers).get("lb://orders/x").timeout(Duration::from_secs(3)).send().await;
    let error = sent.unwrap_err();
    assert!(Error::of(&error).unwrap().is_timeout(), "{error}");
    assert_eq!((silent.served(), balancers.in_flight()), (1, 0), "no time is left for a second attempt");
}

#[tokio::test]
async fn what_a_finished_client_cannot_do_is_an_error_of_its_own() {
    let server = Server::start(ok("")).await;
    let secure = server.instance("tls").to_builder().secure(true).build().unwrap();
    let set = |key: &str, value: &str| Properties::default().set_for("orders", key, value).unwrap();
    let error = async |http: &ClientWithMiddleware| http.get("lb://orders/x").send().await.unwrap_err();

    let named = balancers([secure.clone()], set("tls-name", "orders.test"));
    for both in [true, false] {
        let alone = ClientBuilder::new(finished()).with(Balance::new(&named)).build();
        let error = error(&if both { over_both(&named) } else { alone }).await;
        let text = error.to_string();
        let unsupported = Error::of(&error).unwrap().as_unsupported().unwrap();
        assert!(
            matches!(unsupported, Unsupported::TlsName { instance, name, .. } if instance.id() == "tls" && name == "orders.test"),
            "{unsupported:?}"
        );
        assert!(
            text.contains("tls-name") && text.contains("\"orders\"") && text.contains("tls (127"),
            "{text}"
        );
    }
    for (key, expected) in [("connect-timeout", "300ms"), ("read-timeout", "300ms")] {
        let limited = balancers([server.instance("a")], set(key, expected));
        let error = error(&over_both(&limited)).await;
        let text = error.to_string();
        let matches = match Error::of(&error).unwrap().as_unsupported().unwrap() {
            Unsupported::ConnectTimeout(service, limit) => {
                key == "connect-timeout" && service.as_str() == "orders" && limit.as_millis() == 300
            }
            Unsupported::ReadTimeout(service, limit) => {
                key == "read-timeout" && service.as_str() == "orders" && limit.as_millis() == 300
            }
            _ => false,
        };
        assert!(matches && text.contains(key) && text.contains("with_limits_of_client"), "{text}");
        let own = ClientBuilder::new(finished()).with(Balance::new(&limited).with_limits_of_client()).build();
        assert_eq!(own.get("lb://orders/x").send().await.unwrap().status(), 200);
    }
    assert_eq!(server.served(), 2);
    let list = named.get("orders").unwrap().snapshot().unwrap();
    assert!(list.instances().all(|state| !state.is_skipped()), "it has no part in it");
    // The default limit is nobody's wish.
    let plain = balancers([server.instance("a")], set("connect-timeout", "1s"));
    assert_eq!(over_both(&plain).get("lb://orders/x").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn errors_say_why_there_is_no_instance() {
    let empty = balancers([], Properties::default());
    let http = over_both(&empty);
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    assert!(Error::of(&error).unwrap().choose_error().is_some(), "{error}");
    let error = http.get("lb://bad%20id/x").send().await.unwrap_err();
    assert!(
        Error::of(&error).unwrap().build_error().is_some() && error.to_string().contains("bad%20id"),
        "{error}"
    );
    let server = Server::start(ok("")).await;
    let plain = server.instance("p").to_builder().secure(false).build().unwrap();
    let error = over_both(&balancers([plain], Properties::default()))
        .get("https://orders/x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(Error::of(&error).unwrap().target_error().unwrap().instance().id(), "p");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn hints_and_costs_stand_in_the_extensions_of_the_request() {
    let (blue, green) = (Server::start(Act::Hang).await, Server::start(Act::Hang).await);
    let hinted = |server: &Server, hint: &str| {
        server.instance(hint).to_builder().with_metadata("hint", hint).build().unwrap()
    };
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let balancers = balancers([hinted(&blue, "blue"), hinted(&green, "green")], properties);
    let alone = ClientBuilder::new(finished()).with(Balance::new(&balancers)).build();
    for (n, http) in [over_both(&balancers), alone].into_iter().enumerate() {
        let options = CallOptions::default().with_hint("blue").with_cost(500);
        let call =
            tokio::spawn(
                async move { http.get("lb://orders/x").with_extension(options).send().await.map(drop) },
            );
        eventually("the request", || blue.served() == n + 1).await;
        assert_eq!(balancers.in_flight(), 500);
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!((green.served(), balancers.in_flight()), (0, 0));
    }
}

#[tokio::test]
async fn the_attempts_of_a_strange_middleware_go_to_different_instances() {
    let servers = [
        Server::start(status(503, "")).await,
        Server::start(status(503, "")).await,
        Server::start(ok("")).await,
    ];
    let ids = ["a", "b", "c"];
    let balancers =
        balancers(servers.iter().zip(ids).map(|(server, id)| server.instance(id)), Properties::default());
    let http = ClientBuilder::new(finished()).with(Again(2)).with(Balance::new(&balancers)).build();
    let mut attempts = 0;
    for _ in 0..6 {
        let (id, made) = via(&http.get("lb://orders/x").send().await.unwrap());
        assert_eq!(id, "c");
        attempts += made;
    }
    assert!(attempts > 6 && servers[2].served() == 6);
    assert_eq!(servers[0].served() + servers[1].served() + 6, attempts as usize);
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_get_through_middlewares_fails_when_one_of_three_is_killed() {
    let servers = [Server::start(ok("")).await, Server::start(ok("")).await, Server::start(ok("")).await];
    let ids = ["a", "b", "c"];
    let balancers = balancers(servers.iter().zip(ids).map(|(server, id)| server.instance(id)), killable());
    let http = over_both(&balancers);
    let answered = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (http, answered) = (http.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                for _ in 0..150 {
                    let response = ends("a GET", http.get("lb://orders/x").send()).await.unwrap();
                    ends("its body", response.bytes()).await.unwrap();
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    eventually("load", || answered.load(Ordering::SeqCst) > 100).await;
    servers[0].kill();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!((answered.load(Ordering::SeqCst), balancers.in_flight()), (600, 0));
}
