//! The connection that is opened before traffic is the one that the traffic uses.

use std::sync::Arc;

use evenkeel::client::{Outgoing, RequestTransformer};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{InstanceState, LoadBalancers, ServiceId, ServiceInstance};

use crate::net::*;

struct World {
    registry: SimpleDiscovery,
    balancers: LoadBalancers,
}

impl World {
    fn new(first: &[ServiceInstance], pairs: &[(&str, &str)]) -> Self {
        let registry = SimpleDiscovery::new();
        registry.set(&orders(), first.to_vec());
        let properties = pairs.iter().fold(Properties::default(), |all, (key, value)| {
            all.set_for("orders", &format!("pre-connection.{key}"), *value).unwrap()
        });
        let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
        Self { registry, balancers }
    }

    fn list(&self, instances: &[ServiceInstance]) {
        self.registry.set(&orders(), instances.to_vec());
    }

    /// What `look` says of an instance; `None` while it is not listed.
    fn state<T>(&self, id: &str, look: impl Fn(&InstanceState) -> T) -> Option<T> {
        let list = self.balancers.get("orders").unwrap().snapshot()?;
        list.all_instances().find(|state| state.instance().id() == id).map(|state| look(state))
    }
}

fn orders() -> ServiceId {
    ServiceId::new("orders").unwrap()
}

/// Changes nothing.
#[derive(Debug)]
struct Nothing;

impl RequestTransformer for Nothing {
    fn transform(&self, _: &mut Outgoing<'_>, _: &ServiceInstance) {}
}

async fn call(client: &evenkeel::client::reqwest::Client) -> String {
    client.get("lb://orders/api").send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn the_first_request_of_a_new_instance_finds_its_connection_open() {
    // A page that is not at hand at once: unless it is read, its connection is of no use.
    let page = |number| ok(&if number == 1 { "x".repeat(200_000) } else { "new".to_owned() });
    let (old, new) = (Server::start(ok("old")).await, Server::start(by(page)).await);
    let world = World::new(&[old.instance("a")], &[("enabled", "true"), ("path", "/ready?x=%2F")]);
    let client = client(&world.balancers);
    assert_eq!(call(&client).await, "old");
    world.list(&[old.instance("a"), new.instance("b")]);
    eventually("the connection", || world.state("b", InstanceState::is_connecting) == Some(false)).await;
    // Before its first request: one connection, which one request opened that nobody took a lease for.
    assert_eq!((new.connections(), new.served(), old.served()), (1, 1, 1));
    assert!(new.heads()[0].starts_with("GET /ready?x=%2F HTTP/1.1\r\n"), "{}", new.heads()[0]);
    assert_eq!(header(&new.heads()[0], "host"), Some(&*new.address.to_string()));
    let status = world.balancers.get("orders").unwrap().status();
    let row = status.instances.iter().find(|row| row.id == "b").unwrap();
    assert_eq!((row.calls, row.in_flight), (0, 0));
    for _ in 0..10 {
        call(&client).await;
    }
    assert_eq!((new.served(), new.connections()), (6, 1), "its calls use that very connection");
}

#[tokio::test]
async fn any_answer_is_a_success_also_a_redirect_to_nowhere_and_one_without_end() {
    let old = Server::start(ok("old")).await;
    let refusing = Refusing::new();
    let nowhere = format!("http://{}/", refusing.instance("x").authority());
    let endless = Arc::new(tokio::sync::Notify::new());
    let servers = [
        Server::start(status(503, "not yet")).await,
        Server::start(Act::Answer(format!(
            "HTTP/1.1 302 Found\r\nlocation: {nowhere}\r\ncontent-length: 0\r\n\r\n"
        )))
        .await,
        Server::start(Act::Answer(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n{}",
            "x".repeat(400_000)
        )))
        .await,
        Server::start(Act::Parts(
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123",
            Arc::clone(&endless),
            "",
        ))
        .await,
    ];
    let world = World::new(
        &[old.instance("a")],
        &[("enabled", "true"), ("connect-timeout", "60s"), ("timeout", "60s")],
    );
    let client = client(&world.balancers);
    call(&client).await;
    let new: Vec<ServiceInstance> =
        servers.iter().enumerate().map(|(at, server)| server.instance(&at.to_string())).collect();
    world.list(&[vec![old.instance("a")], new].concat());
    for id in ["0", "1", "2"] {
        eventually(id, || world.state(id, InstanceState::is_connecting) == Some(false)).await;
    }
    // This one is still read; then its connection ends within the answer.
    eventually("the request", || servers[3].served() == 1).await;
    endless.notify_one();
    eventually("3", || world.state("3", InstanceState::is_connecting) == Some(false)).await;
    assert!(servers.iter().all(|server| server.served() == 1), "one try each");
}

#[tokio::test]
async fn one_that_does_not_listen_yet_gets_no_call_and_then_its_first_uses_the_connection() {
    let (old, late) = (Server::start(ok("old")).await, Refusing::new());
    let world = World::new(&[old.instance("a")], &[("enabled", "true")]);
    let client = client(&world.balancers);
    call(&client).await;
    world.list(&[old.instance("a"), late.instance("b")]);
    let log = || world.balancers.get("orders").unwrap().status().to_string();
    eventually("a try that fails", || log().contains("Connection refused")).await;
    for _ in 0..20 {
        assert_eq!(call(&client).await, "old");
    }
    // It was never called, so nothing speaks against it.
    assert_eq!(world.state("b", InstanceState::consecutive_failures), Some(0));
    let late = late.revive(ok("late"));
    eventually("the connection", || world.state("b", InstanceState::is_connecting) == Some(false)).await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(call(&client).await);
    }
    assert_eq!(seen.iter().filter(|text| *text == "late").count(), 5, "{seen:?}");
    assert_eq!(late.connections(), 1);
}

#[tokio::test]
async fn each_client_has_a_connection_of_its_own_and_one_that_is_gone_has_none() {
    let (old, new) = (Server::start(ok("old")).await, Server::start(ok("new")).await);
    let world = World::new(&[old.instance("a")], &[("enabled", "true")]);
    let (first, second, third) =
        (client(&world.balancers), client(&world.balancers), client(&world.balancers));
    for client in [&first, &second, &third] {
        call(client).await;
    }
    // One with a transformer has the connections of the one that it was made from.
    let second = second.with_transformer(Nothing);
    drop(third);
    world.list(&[old.instance("a"), new.instance("b")]);
    eventually("the connections", || world.state("b", InstanceState::is_connecting) == Some(false)).await;
    assert_eq!((new.connections(), new.served()), (2, 2));
    for client in [&first, &second] {
        for _ in 0..6 {
            call(client).await;
        }
    }
    assert_eq!((new.connections(), new.served()), (2, 8));
}

#[tokio::test]
async fn without_a_client_it_is_tcp_alone() {
    let (old, new) = (Server::start(ok("old")).await, Server::start(ok("new")).await);
    let world = World::new(&[old.instance("a")], &[("enabled", "true")]);
    drop(client(&world.balancers));
    let lb = world.balancers.get("orders").unwrap();
    drop(lb.choose(&evenkeel::Request::EMPTY).await.unwrap());
    world.list(&[old.instance("a"), new.instance("b")]);
    eventually("the connection", || world.state("b", InstanceState::is_connecting) == Some(false)).await;
    eventually("the server sees it", || new.connections() == 1).await;
    assert_eq!(new.served(), 0);
}

/// A try that hangs holds neither the client nor the balancers.
#[tokio::test]
async fn what_is_dropped_meanwhile_is_gone() {
    let (old, new) = (Server::start(ok("old")).await, Server::start(Act::Hang).await);
    let world = World::new(
        &[old.instance("a")],
        &[("enabled", "true"), ("connect-timeout", "60s"), ("timeout", "60s")],
    );
    let kept = Arc::new(());
    let client = {
        let kept = Arc::clone(&kept);
        let make = move |_: &ServiceInstance| {
            let _: &Arc<()> = &kept;
            reqwest::Client::builder()
        };
        world.balancers.reqwest(make).unwrap()
    };
    call(&client).await;
    world.list(&[old.instance("a"), new.instance("b")]);
    eventually("the request", || new.served() == 1).await;
    assert_eq!(world.state("b", InstanceState::is_connecting), Some(true));
    let list = world.balancers.get("orders").unwrap().snapshot().unwrap();
    drop((client, world));
    // At once, though the try goes on as long as nobody lets its task run.
    assert_eq!(Arc::strong_count(&kept), 1, "the client is gone");
    assert!(!list.all_instances().any(|state| state.is_connecting()), "the balancer is gone");
}
