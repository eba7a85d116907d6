use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::LoadBalancers;
use evenkeel::config::{Format, LiveProperties, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::gateway::{Gateway, RouteDefinition, Routes};
use tokio::net::TcpListener;

use crate::common::{front, get};
use crate::net::{Act, Server, by, header, ok, status};

fn routes(server: &Server) -> Routes {
    Routes::new([RouteDefinition::new("r", format!("http://{}/", server.address))]).unwrap()
}

fn properties(yaml: &str) -> Properties {
    Properties::parse(yaml, Format::Yaml, "application.yml").unwrap()
}

#[tokio::test]
async fn the_properties_of_every_service_hold_for_an_address_too() {
    // A limit of an attempt, and the repetition on the same instance.
    let server = Server::start(by(|number| if number == 1 { Act::Hang } else { ok("done") })).await;
    let yaml = format!(
        "
evenkeel:
  retry: {{per-try-timeout: 100ms, max-retries-on-same-service-instance: 1}}
  host-header: service
  sticky-session.add-service-instance-cookie: true
  gateway.routes: [{{id: r, uri: 'http://{}'}}]
",
        server.address
    );
    let front = front(&yaml, &[]).await;
    let reply = get(front.address, "/x").await;
    assert_eq!((reply.status, reply.body.as_str(), server.served()), (200, "done", 2));
    assert_eq!(header(&server.heads()[1], "host"), Some(&*server.address.to_string()));
    assert_eq!(reply.header("set-cookie"), None, "an address is nothing to come back to");
}

#[tokio::test]
async fn properties_that_change_hold_for_an_address_as_well() {
    let server = Server::start(by(|number| if number % 2 == 1 { status(503, "") } else { ok("") })).await;
    let live = LiveProperties::new(properties("evenkeel.retry.enabled: false"));
    let balancers = LoadBalancers::builder(SimpleDiscovery::new()).live(live.clone()).build().unwrap();
    let gateway = Gateway::builder(balancers).routes(routes(&server)).build();
    let handle = gateway.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).unwrap();
    assert_eq!(get(handle.address(), "/x").await.status, 503);
    assert_eq!(get(handle.address(), "/x").await.status, 200);
    live.replace(properties(
        "evenkeel.retry: {retryable-status-codes: 503, max-retries-on-same-service-instance: 1}",
    ));
    // They are put in force by a task.
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        if server.served() % 2 == 0 {
            seen.insert(get(handle.address(), "/x").await.status);
        } else {
            get(handle.address(), "/x").await;
        }
        if seen.contains(&200) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(seen.contains(&200), "{seen:?}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_address_that_stays_keeps_its_connections_when_routes_change() {
    let (server, other) = (Server::start(ok("")).await, Server::start(ok("other")).await);
    let front = front("evenkeel.gateway.routes: []", &[]).await;
    for _ in 0..3 {
        front.gateway.set_routes(routes(&server));
        assert_eq!(get(front.address, "/x").await.status, 200);
        let yaml = format!("evenkeel.gateway.routes: [{{id: n, uri: 'http://{}'}}]", server.address);
        front.gateway.reload(&properties(&yaml)).unwrap();
        assert_eq!(get(front.address, "/x").await.status, 200);
    }
    assert_eq!((server.served(), server.connections()), (6, 1));
    front.gateway.set_routes(routes(&other));
    assert_eq!(get(front.address, "/x").await.body, "other");
}
