//! The layers in a stack of tower's: retry outside, balance inside, one attempt = one choice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::net::*;
use super::support::{get, request, text, via};
use evenkeel::client::tower::{BoxError, Error, Picked, Returning};
use evenkeel::config::Properties;
use evenkeel::{Failure, LoadBalancers, ServiceId, ServiceInstance};
use http::{Method, Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

fn hyper<B>() -> Client<HttpConnector, B>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).build_http()
}

#[tokio::test]
async fn case_026_what_was_never_sent_goes_to_another_through_the_layers_too() {
    for method in [Method::GET, Method::POST] {
        let (dead, live) = (Refusing::new(), Server::start(ok("well")).await);
        let balancers = balancers([dead.instance("a"), live.instance("b")], Properties::default());
        let mut service = ServiceBuilder::new()
            .layer(balancers.retry_layer().via(true))
            .layer(balancers.balance_layer())
            .service(hyper());
        let mut attempts = 0;
        for _ in 0..10 {
            let response = service.call(request(method.clone(), "lb://orders/x", "body")).await.unwrap();
            attempts += via(&response).attempts();
            assert_eq!(via(&response).instance().id(), "b");
            assert_eq!(balancers.in_flight(), 1, "one attempt, one choice, one lease");
            assert_eq!(text(response).await, "well");
        }
        assert_eq!((attempts, live.served(), balancers.in_flight()), (11, 10, 0));
    }
}

#[tokio::test]
async fn without_the_retry_layer_there_is_one_attempt() {
    let (dead, live) = (Refusing::new(), Server::start(ok("well")).await);
    let balancers = balancers([dead.instance("a"), live.instance("b")], Properties::default());
    let mut service = balancers.balance_layer().via(true).layer(hyper());
    let mut errors = Vec::new();
    for _ in 0..4 {
        match service.call(get("lb://orders/x")).await {
            Ok(response) => assert_eq!((via(&response).instance().id(), via(&response).attempts()), ("b", 1)),
            Err(error) => errors.push(error),
        }
    }
    let [error] = &errors[..] else { panic!("the dead one is skipped after its first call: {errors:?}") };
    assert_eq!((error.tried().len(), error.failure()), (1, Some(Failure::Connect)));
    assert!(
        error.to_string().contains("\"orders\"") && error.to_string().contains("a (127.0.0.1:"),
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(error.cause().unwrap().is::<hyper_util::client::legacy::Error>(), "{error:?}");
}

#[tokio::test]
async fn case_022_first_attempts_alternate_though_each_call_is_repeated() {
    let (a, b) = (Server::start(status(500, "")).await, Server::start(status(500, "")).await);
    let properties = Properties::default().set("retry.retryable-status-codes", 500).unwrap();
    let balancers = balancers([a.instance("a"), b.instance("b")], properties);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&sent);
    // Between the two: it sees every attempt.
    let between = move |request: Request<Returning<Full<Bytes>>>| {
        let picked = request.extensions().get::<Picked>().unwrap().instance().id().to_owned();
        kept.lock().unwrap().push(picked);
        request
    };
    let mut service = ServiceBuilder::new()
        .layer(balancers.retry_layer())
        .map_request(between)
        .layer(balancers.balance_layer())
        .service(hyper());
    for _ in 0..10 {
        let response = service.call(get("lb://orders/x")).await.unwrap();
        assert_eq!(response.status(), 500, "the caller gets the last answer");
    }
    let sent = sent.lock().unwrap();
    assert_eq!((sent.len(), a.served(), b.served()), (20, 10, 10));
    let firsts: Vec<_> = sent.iter().step_by(2).collect();
    assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]), "{sent:?}");
    assert!(sent.chunks(2).all(|call| call[0] != call[1]), "{sent:?}");
}

#[tokio::test]
async fn case_022_what_one_node_refuses_is_shared_by_the_others() {
    let refuses = Server::start(status(503, "")).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(Server::start(ok("")).await);
    }
    let properties = Properties::default().set("retry.retryable-status-codes", 503).unwrap();
    let ids = ["n1", "n2", "n3"];
    let instances = others.iter().zip(ids).map(|(server, id)| server.instance(id));
    let balancers = balancers([refuses.instance("n0")].into_iter().chain(instances), properties);
    let service = ServiceBuilder::new()
        .layer(balancers.retry_layer())
        .layer(balancers.balance_layer())
        .service(hyper());
    for _ in 0..8 {
        let response = service.clone().oneshot(get("lb://orders/x")).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let served: Vec<_> = others.iter().map(Server::served).collect();
    assert_eq!(served.iter().sum::<usize>(), 8);
    assert!(served.iter().max().unwrap() - served.iter().min().unwrap() <= 2, "{served:?}");
}

/// A service without a network that keeps where its requests go.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, usize>>>);

impl Service<Request<Empty<Bytes>>> for Kept {
    type Response = Response<Empty<Bytes>>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Empty<Bytes>>) -> Self::Future {
        *self.0.lock().unwrap().entry(request.uri().to_string()).or_default() += 1;
        std::future::ready(Ok(Response::new(Empty::new())))
    }
}

#[tokio::test]
async fn a_closure_may_name_the_service() {
    let instance = |port| ServiceInstance::new("h.test", port).unwrap();
    let services = [("orders", vec![instance(1)]), ("users", vec![instance(2)])];
    let balancers = LoadBalancers::fixed(services).unwrap();
    let layer = balancers.balance_layer().service_by(|parts| {
        let tenant = parts.headers.get("x-service")?.to_str().ok()?;
        ServiceId::new(tenant).ok()
    });
    let kept = Kept::default();
    let mut service = layer.layer(kept.clone());
    for name in [Some("orders"), Some("users"), None, None] {
        let mut request = Request::get("http://edge.test/x").body(Empty::new()).unwrap();
        if let Some(name) = name {
            request.headers_mut().insert("x-service", name.parse().unwrap());
        }
        service.call(request).await.unwrap();
    }
    let seen = kept.0.lock().unwrap();
    let expected = [("http://edge.test/x", 2), ("http://h.test:1/x", 1), ("http://h.test:2/x", 1)];
    assert_eq!(seen.iter().map(|(uri, times)| (&**uri, *times)).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_errors_of_ones_own_services_are_judged_by_ones_own_rule() {
    #[derive(Debug)]
    struct Full;
    impl std::fmt::Display for Full {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no room")
        }
    }
    impl std::error::Error for Full {}
    let instance = |port| ServiceInstance::new("h.test", port).unwrap();
    let balancers = LoadBalancers::fixed([("orders", vec![instance(1), instance(2)])]).unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&calls);
    let inner = service_fn(move |request: Request<Returning<Empty<Bytes>>>| {
        kept.lock().unwrap().push(request.uri().clone());
        async { Err::<Response<Empty<Bytes>>, _>(Full) }
    });
    let never_sent: fn(&BoxError) -> Failure =
        |error| if error.is::<Full>() { Failure::Connect } else { Failure::Other };
    for (retry, attempts) in [(balancers.retry_layer(), 1), (balancers.retry_layer().failures(never_sent), 2)]
    {
        calls.lock().unwrap().clear();
        let service =
            ServiceBuilder::new().layer(retry).layer(balancers.balance_layer()).service(inner.clone());
        let request = Request::post("lb://orders/x").body(Empty::new()).unwrap();
        let error: Error = service.oneshot(request).await.unwrap_err();
        assert_eq!((error.tried().len(), calls.lock().unwrap().len()), (attempts, attempts), "{error}");
        assert!(error.cause().unwrap().is::<Full>(), "{error:?}");
    }
}

#[tokio::test]
async fn a_time_out_of_towers_counts_as_one() {
    let silent = Server::start(Act::Hang).await;
    let balancers = balancers([silent.instance("a")], Properties::default());
    let service = ServiceBuilder::new()
        .layer(balancers.balance_layer())
        .layer(tower::timeout::TimeoutLayer::new(Duration::from_millis(200)))
        .service(hyper::<Full<Bytes>>());
    let error = service.oneshot(get("lb://orders/x")).await.unwrap_err();
    assert!(error.is_timeout() && error.tried().len() == 1, "{error:?}");
    assert_eq!(balancers.in_flight(), 0);
}

#[tokio::test]
async fn a_service_below_that_must_be_made_ready_is() {
    let server = Server::start(ok("well")).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    // A limit panics when it is called without being ready.
    let service = ServiceBuilder::new()
        .layer(balancers.balance_layer())
        .concurrency_limit(1)
        .service(hyper::<Full<Bytes>>());
    let calls = (0..5).map(|_| service.clone().oneshot(get("lb://orders/x")));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!((server.served(), balancers.in_flight()), (5, 0));
}

#[tokio::test]
async fn a_place_in_the_queue_of_a_service_below_goes_along_with_its_call() {
    let server = Server::start(ok("well")).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    let mut service = ServiceBuilder::new()
        .layer(balancers.balance_layer())
        .concurrency_limit(1)
        .service(hyper::<Full<Bytes>>());
    // From now on there is a list, so that a call asks at once whether it is let in.
    assert_eq!(service.call(get("lb://orders/x")).await.unwrap().status(), 200);
    // The first is, the others queue. A place that stayed with the service would be let in next, and nobody leave it.
    let calls: Vec<_> = (0..4).map(|_| service.call(get("lb://orders/x"))).collect();
    let all = futures_util::future::join_all(calls);
    for answer in tokio::time::timeout(Duration::from_secs(20), all).await.expect("nobody waits for ever") {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!((server.served(), balancers.in_flight()), (5, 0));
}

#[tokio::test]
async fn what_is_handed_on_goes_to_a_service_below_the_retries_that_is_no_balance() {
    let balancers = balancers([Refusing::new().instance("a")], Properties::default());
    let told = |request: Request<Returning<Full<Bytes>>>| async move {
        let hint = request.headers().get("x-sc-lb-hint").cloned();
        let mut response = Response::new(Empty::<Bytes>::new());
        response.headers_mut().extend(hint.map(|hint| (http::header::VIA, hint)));
        Ok::<_, BoxError>(response)
    };
    let service = balancers.retry_layer().layer(service_fn(told));
    let name = http::HeaderName::from_static("x-sc-lb-hint");
    let handed_on = evenkeel::client::Propagated::default().with(name, "green".parse().unwrap());
    let call = service.clone().oneshot(get("lb://orders/x"));
    assert_eq!(handed_on.clone().scope(call).await.unwrap().headers()["via"], "green");
    // What is inside stays inside.
    let call = service.oneshot(get("http://elsewhere.test/x"));
    assert!(handed_on.scope(call).await.unwrap().headers().is_empty());
}

#[tokio::test]
async fn what_is_handed_on_counts_for_the_choice_of_the_layer_and_goes_along() {
    let (blue, green) = (Server::start(ok("blue")).await, Server::start(ok("green")).await);
    let hinted = |server: &Server, hint: &str| {
        server.instance(hint).to_builder().with_metadata("hint", hint).build().unwrap()
    };
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let balancers = balancers([hinted(&blue, "blue"), hinted(&green, "green")], properties);
    let service = balancers.balance_layer().via(true).layer(hyper::<Full<Bytes>>());
    let name = http::HeaderName::from_static("x-sc-lb-hint");
    let handed_on = evenkeel::client::Propagated::default().with(name, "green".parse().unwrap());
    for _ in 0..4 {
        let call = service.clone().oneshot(get("lb://orders/x"));
        let response = handed_on.clone().scope(call).await.unwrap();
        assert_eq!(via(&response).instance().id(), "green");
    }
    assert_eq!((blue.served(), green.served()), (0, 4));
    assert!(green.heads().iter().all(|head| header(head, "x-sc-lb-hint") == Some("green")));
}
