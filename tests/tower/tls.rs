//! TLS by a connector of hyper-rustls: the certificate is verified by the name of the service.

use std::convert::Infallible;
use std::sync::Arc;

use super::net::{at, balancers};
use super::support::{get, text};
use evenkeel::client::tower::HyperClient;
use evenkeel::config::Properties;
use evenkeel::{Failure, ServiceInstance};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server of TLS whose certificate names `orders.test`, and speaks both protocols; its instance, and the certificate.
async fn secure() -> (ServiceInstance, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["orders.test".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = at(listener.local_addr().unwrap(), "s");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(async |request: http::Request<Incoming>| {
                    let version = format!("{:?}", request.version());
                    Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from(version)))
                });
                let http = auto::Builder::new(TokioExecutor::new());
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (plain.to_builder().secure(true).build().unwrap(), certificate)
}

fn connector(trusted: &CertificateDer<'static>, name: &str) -> HttpsConnector<HttpConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .with_server_name_resolver(FixedServerNameResolver::new(
            ServerName::try_from(name.to_owned()).unwrap(),
        ))
        .enable_all_versions()
        .build()
}

#[tokio::test]
async fn an_instance_at_an_address_is_verified_by_the_name_of_its_service() {
    let (instance, certificate) = secure().await;
    let balancers = balancers([instance], Properties::default());
    let builder = balancers.hyper_builder().connector(connector(&certificate, "orders.test"));
    let http: HyperClient<Full<Bytes>, _> = builder.build();
    for uri in ["lb://orders/x", "https://orders/x", "http://orders/x"] {
        let response = http.request(get(uri)).await.unwrap();
        assert_eq!(text(response).await, "HTTP/2.0", "negotiated");
    }
    // By a name of each instance, and one that the certificate does not have: nothing was sent.
    let wrong = connector(&certificate, "other.test");
    let builder = balancers.hyper_builder().connector(connector(&certificate, "orders.test"));
    let http: HyperClient<Full<Bytes>, _> = builder.connector_for(move |_, _| wrong.clone()).build();
    let error = http.request(get("lb://orders/x")).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Connect), "{error:?}");
    assert!(error.to_string().contains("s (127.0.0.1:"), "{error}");
}
