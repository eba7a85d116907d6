//! TLS to instances that are listed by address: the certificate is held to a name.

use super::net::*;
use evenkeel::ServiceInstance;
use evenkeel::client::tonic::{BalancedChannel, GrpcProbe, tls_name};
use evenkeel::health::HealthProbe;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};
use tonic::{Code, transport};

/// A server with a certificate for `orders.test`, and the certificate.
async fn secure() -> (Server, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["orders.test".to_owned()]).unwrap();
    let identity = Identity::from_pem(cert.pem(), signing_key.serialize_pem());
    let config = ServerTlsConfig::new().identity(identity);
    let address = ([127, 0, 0, 1], 0).into();
    let server = Server::with("a", Act::Answer, address, |builder| builder.tls_config(config).unwrap()).await;
    (server, cert.pem())
}

fn named(server: &Server, name: &str) -> ServiceInstance {
    server.instance().to_builder().secure(true).with_metadata("tls-name", name).build().unwrap()
}

fn with_tls(
    pem: &str,
) -> impl Fn(&ServiceInstance, Endpoint) -> Result<Endpoint, transport::Error> + Send + Sync + Clone + use<> {
    let trusted = Certificate::from_pem(pem);
    move |instance, endpoint| {
        let tls = ClientTlsConfig::new().ca_certificate(trusted.clone()).domain_name(tls_name(instance));
        endpoint.tls_config(tls)
    }
}

fn channel(instance: ServiceInstance) -> BalancedChannel {
    balancers([instance], patient()).tonic("orders")
}

#[tokio::test]
async fn a_certificate_is_held_to_the_name_of_the_instance() {
    let (server, pem) = secure().await;
    let secure = channel(named(&server, "orders.test")).endpoint(with_tls(&pem));
    let answer = EchoClient::new(secure).say(word("x")).await.unwrap();
    assert_eq!(answer.into_inner().text, "a x");

    let other = channel(named(&server, "users.test")).endpoint(with_tls(&pem));
    let status = EchoClient::new(other).say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().contains("certificate") && status.message().contains("a (127.0.0.1:"),
        "{status}"
    );
    assert_eq!(server.served(), 1, "nothing was sent to the other");
}

#[tokio::test]
async fn a_secure_instance_is_not_called_in_the_clear() {
    let (server, _) = secure().await;
    let status = EchoClient::new(channel(named(&server, "orders.test"))).say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("TLS"), "{status}");
    assert_eq!(server.served(), 0);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_made_is_an_error_that_blames_nobody() {
    let (server, _) = secure().await;
    let balancers = balancers([named(&server, "no name at all")], patient());
    let channel = balancers.tonic("orders").endpoint(with_tls("no certificate"));
    let status = EchoClient::new(channel).say(word("x")).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("cannot be called"), "{status}");
    let orders = balancers.get("orders").unwrap().snapshot().unwrap();
    assert!(orders.instances().all(|state| !state.is_skipped()));
}

#[tokio::test]
async fn a_probe_may_use_tls_too() {
    let (server, pem) = secure().await;
    let probe = GrpcProbe::new().with_endpoint(with_tls(&pem));
    probe.check(&named(&server, "orders.test")).await.unwrap();
    let wrong = GrpcProbe::new().with_endpoint(with_tls(&pem));
    let error = wrong.check(&named(&server, "users.test")).await.unwrap_err();
    assert!(error.to_string().starts_with("Unavailable: "), "{error}");
}
