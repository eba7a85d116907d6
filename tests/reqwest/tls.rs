//! Certificates of instances whose host is an address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::net::*;
use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::{LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::Certificate;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server whose certificate is for `orders.test` and nothing else; it keeps by which name it was asked for, in the
/// handshake and in the header `Host`.
struct Tls {
    address: SocketAddr,
    certificate: Certificate,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Tls {
    async fn start() -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["orders.test".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<(String, String)>>>::default();
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, kept) = (acceptor.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                    let service = service_fn(|request: hyper::Request<Incoming>| {
                        let host = request.headers()["host"].to_str().unwrap().to_owned();
                        kept.lock().unwrap().push((name.clone(), host));
                        async { Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from("safe")))) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, certificate: Certificate::from_der(cert.der()).unwrap(), asked }
    }

    fn instance(&self, id: &str, name: Option<&str>) -> ServiceInstance {
        let builder = at(self.address, id).to_builder().secure(true);
        let builder = match name {
            Some(name) => builder.with_metadata("tls-name", name),
            None => builder,
        };
        builder.build().unwrap()
    }

    fn client(&self, balancers: &LoadBalancers) -> Client {
        let certificate = self.certificate.clone();
        let make = move |_: &_| reqwest::Client::builder().tls_certs_only([certificate.clone()]);
        balancers.reqwest(make).unwrap()
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

/// A handshake takes its time on a machine that has much to do.
fn patient() -> Properties {
    Properties::default().set("connect-timeout", "20s").unwrap()
}

fn named(name: &str) -> Properties {
    patient().set_for("orders", "tls-name", name).unwrap()
}

#[tokio::test]
async fn a_certificate_is_verified_by_the_name_of_the_entry_or_of_the_property() {
    for (entry, property) in
        [(Some("orders.test"), None), (None, Some("Orders.test")), (Some("orders.test"), Some("other.test"))]
    {
        let server = Tls::start().await;
        let properties = property.map_or_else(patient, named);
        let http = server.client(&balancers([server.instance("a", entry)], properties));
        for url in ["lb://orders/x", "http://orders/x", "https://orders/x"] {
            let response = http.get(url).send().await.unwrap();
            assert_eq!(response.remote_addr(), Some(server.address), "no look-up of the name");
            let at = format!("https://orders.test:{}/x", server.address.port());
            assert_eq!(response.url().as_str(), at);
            assert_eq!(response.text().await.unwrap(), "safe");
        }
        let host = format!("orders.test:{}", server.address.port());
        assert_eq!(server.asked(), [(); 3].map(|()| ("orders.test".to_owned(), host.clone())));
    }
}

#[tokio::test]
async fn another_name_or_none_is_a_connection_that_was_not_made() {
    for (entry, property) in
        [(None, None), (Some("other.test"), Some("orders.test")), (None, Some("other.test"))]
    {
        let (server, live) = (Tls::start().await, Server::start(ok("")).await);
        let properties = property.map_or_else(patient, named);
        let bad = server.instance("bad", entry);
        let http = server.client(&balancers([bad.clone()], properties.clone()));
        let error = http.post("lb://orders/x").body("once").send().await.unwrap_err();
        assert!(error.reqwest_error().unwrap().is_connect(), "{error:?}");
        assert!(error.to_string().contains(&format!("tried {bad}")), "{error}");
        assert!(server.asked().is_empty());
        // So a call goes to another one, whatever its method, and this one is skipped.
        let http = server.client(&balancers([bad, live.instance("b")], properties));
        let mut attempts = 0;
        for _ in 0..6 {
            let response = http.post("lb://orders/x").body("once").send().await.unwrap();
            let via = response.extensions().get::<Via>().unwrap();
            assert_eq!(via.instance().id(), "b");
            attempts += via.attempts();
        }
        assert_eq!((attempts, server.asked().len()), (7, 0));
    }
}

#[tokio::test]
async fn an_entry_whose_name_is_none_says_so_and_spoils_nothing_else() {
    let server = Tls::start().await;
    let (bad, good) =
        (server.instance("bad", Some("10.0.0.1")), server.instance("good", Some("orders.test")));
    let http = server.client(&balancers([bad.clone()], named("orders.test")));
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("\"orders\"")
            && text.contains("bad (127.0.0.1:")
            && text.contains("tls-name: \"10.0.0.1\""),
        "{text}"
    );
    let http = server.client(&balancers([bad, good], patient()));
    for _ in 0..4 {
        let response = http.get("lb://orders/x").send().await.unwrap();
        assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "good");
    }
    let error = Properties::default().set("tls-name", "https://orders.test").unwrap_err();
    assert!(
        error.to_string().contains("tls-name") && error.to_string().contains("https://orders.test"),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_that_changes_holds_for_the_next_call() {
    let server = Tls::start().await;
    let orders = ServiceId::new("orders").unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", [server.instance("a", None)]).unwrap();
    let live = LiveProperties::new(named("other.test"));
    let balancers = LoadBalancers::builder(registry.clone()).live(live.clone()).build().unwrap();
    let http = server.client(&balancers);
    http.get("lb://orders/x").send().await.unwrap_err();
    live.reload(|current| current.clone().set_for("orders", "tls-name", "orders.test")).unwrap();
    eventually("the change", || balancers.properties(&orders).tls_name.as_deref() == Some("orders.test"))
        .await;
    http.get("lb://orders/x").send().await.unwrap();
    // The same instance with another entry.
    registry.set(&orders, [server.instance("a", Some("other.test"))]);
    let lb = balancers.get("orders").unwrap();
    let has_name = || {
        let list = lb.snapshot().unwrap();
        list.instances().any(|state| state.instance().metadata().get("tls-name").is_some())
    };
    eventually("the new entry", has_name).await;
    http.get("lb://orders/x").send().await.unwrap_err();
    assert_eq!(server.asked().len(), 1);
}
