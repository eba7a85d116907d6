use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::gateway::{Gateway, RouteDefinition, Routes};
use evenkeel::{LoadBalancers, config::Properties, discovery::SimpleDiscovery};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::common::{filtered, get};
use crate::net::{Server, at, header, ok};

/// A server of HTTP/2 that answers with the host that it was asked by; and how many connections it had.
async fn naming() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::<AtomicUsize>::default();
    let accepted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            let named = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let authority = request.uri().authority().map(ToString::to_string);
                let host = request.headers().get("host");
                Ok::<_, Infallible>(http::Response::new(format!(
                    "{} {host:?}",
                    authority.unwrap_or_default()
                )))
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), named));
        }
    });
    (address, connections)
}

#[tokio::test]
async fn over_http2_an_instance_sees_the_host_that_the_filters_say() {
    let (instance, connections) = naming().await;
    for (filter, property, wanted) in [
        (None, "instance", instance.to_string()),
        (Some("PreserveHostHeader"), "instance", "shop.test".to_owned()),
        (Some("SetRequestHostHeader=other.test:81"), "instance", "other.test:81".to_owned()),
        (None, "service", "orders".to_owned()),
        (Some("PreserveHostHeader"), "service", "shop.test".to_owned()),
    ] {
        let registry = SimpleDiscovery::new().with_instances("orders", [at(instance, "a")]).unwrap();
        let properties = Properties::default().set("evenkeel.host-header", property).unwrap();
        let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
        let mut route = RouteDefinition::new("r", "lb://orders");
        if let Some(filter) = filter {
            route = route.with_filter(filter);
        }
        let gateway =
            Gateway::builder(balancers).routes(Routes::new([route]).unwrap()).http2_only(true).build();
        let handle = gateway.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).unwrap();
        let before = connections.load(Ordering::SeqCst);
        for _ in 0..3 {
            let reply = get(handle.address(), "/x").await;
            assert_eq!((reply.status, reply.body), (200, format!("{wanted} None")), "{filter:?} {property}");
        }
        assert_eq!(connections.load(Ordering::SeqCst), before + 1, "{filter:?}: one connection");
    }
}

#[tokio::test]
async fn over_http1_too_and_all_hosts_share_the_connections() {
    let server = Server::start(ok("")).await;
    let front = filtered(&["PreserveHostHeader"], vec![server.instance("a")]).await;
    for host in ["a.test", "b.test:80", "c.test"] {
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(crate::common::ask(front.address, &request).await.status, 200);
        assert_eq!(header(&server.heads().pop().unwrap(), "host"), Some(host));
    }
    assert_eq!(server.connections(), 1);
}
