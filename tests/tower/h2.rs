//! HTTP/2: one connection, `GOAWAY`, resets of streams, `:authority`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::net::{at, balancers};
use super::support::{Client, Hyper, get, request, text, via};
use evenkeel::config::Properties;
use evenkeel::{LoadBalancers, ServiceInstance};
use http::{Method, Version};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

fn http2(balancers: &LoadBalancers) -> Client {
    balancers.hyper_builder().http2_only(true).build()
}

#[tokio::test]
async fn calls_share_one_connection_of_http_2() {
    let server = Hyper::start(|_| (200, "well", Duration::from_millis(50))).await;
    let http = http2(&balancers([server.instance("a")], Properties::default()));
    let calls = (0..10).map(|_| http.request(get("lb://orders/x")));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(text(answer.unwrap()).await, "well");
    }
    assert_eq!((server.served(), server.open()), (10, 1));
    assert!(server.seen().iter().all(|seen| seen.version == Version::HTTP_2));
    assert_eq!(http.balancers().in_flight(), 0);
}

#[tokio::test]
async fn the_authority_names_the_instance_or_the_service() {
    let server = Hyper::ok("well").await;
    let address = server.address.to_string();
    for (word, name) in [("instance", &*address), ("service", "orders")] {
        let properties = Properties::default().set("host-header", word).unwrap();
        http2(&balancers([server.instance("a")], properties)).request(get("lb://orders/x")).await.unwrap();
        let seen = server.seen().pop().unwrap();
        assert_eq!(seen.uri.authority().unwrap(), name, "{word}");
        assert_eq!(seen.headers.get("host"), None);
    }
}

/// A server that ends each connection by `GOAWAY` after so many requests.
async fn leaving(after: usize) -> (ServiceInstance, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (instance, connections) = (at(listener.local_addr().unwrap(), "g"), Arc::new(AtomicUsize::new(0)));
    let accepted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let (served, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
                let (count, last) = (Arc::clone(&served), Arc::clone(&done));
                let service = service_fn(move |_: http::Request<Incoming>| {
                    if count.fetch_add(1, Ordering::SeqCst) + 1 == after {
                        last.notify_one();
                    }
                    async { Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from("well"))) }
                });
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = done.notified() => connection.as_mut().graceful_shutdown(),
                }
                let _ = connection.await;
            });
        }
    });
    (instance, connections)
}

#[tokio::test]
async fn a_goaway_fails_no_call() {
    let (instance, connections) = leaving(3).await;
    let http = http2(&balancers([instance], Properties::default()));
    for n in 0..30 {
        let method = if n % 2 == 0 { Method::GET } else { Method::POST };
        let response = http.request(request(method, "lb://orders/x", "")).await.unwrap();
        assert_eq!(text(response).await, "well");
    }
    assert!(connections.load(Ordering::SeqCst) >= 5, "{connections:?}");
    assert_eq!(http.balancers().in_flight(), 0);
}

/// A server that breaks every connection while a request is on it.
async fn breaking() -> ServiceInstance {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let instance = at(listener.local_addr().unwrap(), "r");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let came = Arc::new(tokio::sync::Notify::new());
            let told = Arc::clone(&came);
            let service = service_fn(move |_: http::Request<Incoming>| {
                told.notify_one();
                std::future::pending::<Result<http::Response<Full<Bytes>>, Infallible>>()
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = connection => {}
                () = came.notified() => {}
            }
        }
    });
    instance
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_reset_and_safe_calls_go_on_elsewhere() {
    let (breaks, live) = (breaking().await, Hyper::ok("well").await);
    let http = http2(&balancers([breaks, live.instance("b")], Properties::default()));
    for (method, fails) in [(Method::GET, 0), (Method::POST, 1)] {
        let mut errors = Vec::new();
        // A body that was read is not sent again.
        let body = if method == Method::GET { "" } else { "body" };
        for _ in 0..2 {
            match http.request(request(method.clone(), "lb://orders/x", body)).await {
                Ok(response) => assert_eq!(via(&response).instance().id(), "b"),
                Err(error) => errors.push(error),
            }
        }
        assert_eq!(errors.len(), fails, "{method}: {errors:?}");
        for error in errors {
            assert_eq!(error.failure(), Some(evenkeel::Failure::Reset), "{error:?}");
        }
    }
}
