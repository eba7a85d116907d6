//! Services looked up as hosts, for a client that knows nothing of them.

use super::net::*;
use evenkeel::config::Properties;
use evenkeel::{LoadBalancers, ServiceInstance};

/// A plain client, which keeps no connection unless it is told to.
fn plain(balancers: &LoadBalancers, keeps: usize) -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(keeps);
    builder.dns_resolver(balancers.dns_resolver()).build().unwrap()
}

async fn get(http: &reqwest::Client, url: &str) -> String {
    http.get(url).send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn each_connection_goes_to_the_instance_that_the_balancer_picks_with_its_port() {
    let (a, b) = (Server::start(ok("a")).await, Server::start(ok("b")).await);
    let balancers = balancers([a.instance("a"), b.instance("b")], Properties::default());
    let http = plain(&balancers, 0);
    for _ in 0..10 {
        get(&http, "http://orders/x").await;
    }
    assert_eq!((a.served(), b.served(), a.connections(), b.connections()), (5, 5, 5, 5));
    assert!(a.heads().iter().all(|head| header(head, "host") == Some("orders")));
    assert_eq!(balancers.in_flight(), 0);
    // Kept, it holds all that follows: connections are balanced, not requests.
    let http = plain(&balancers, 8);
    for _ in 0..10 {
        get(&http, "http://orders/x").await;
    }
    assert_eq!(a.connections() + b.connections(), 11);
}

#[tokio::test]
async fn one_that_cannot_be_reached_is_passed_over_by_the_next_address() {
    let (dead, live) = (Refusing::new(), Server::start(ok("live")).await);
    let balancers = balancers([dead.instance("a"), live.instance("b")], Properties::default());
    let http = plain(&balancers, 0);
    for _ in 0..6 {
        assert_eq!(get(&http, "http://orders/x").await, "live");
    }
}

#[tokio::test]
async fn a_port_in_the_url_wins_and_one_that_is_missing_is_that_of_the_scheme() {
    let server = Server::start(ok("named")).await;
    // Its entry says another port: the URL's counts.
    let elsewhere = ServiceInstance::new("127.0.0.1", 9).unwrap();
    let http = plain(&balancers([elsewhere], Properties::default()), 0);
    assert_eq!(get(&http, &format!("http://orders:{}/x", server.address.port())).await, "named");
    let named = ServiceInstance::builder("localhost").port(server.address.port()).build().unwrap();
    let http = plain(&balancers([named], Properties::default()), 0);
    assert_eq!(get(&http, "http://orders/x").await, "named");
}

#[tokio::test]
async fn names_that_are_no_services_are_looked_up_as_ever_and_empty_services_are_errors() {
    let server = Server::start(ok("host")).await;
    let empty = balancers([], Properties::default());
    let http = plain(&empty, 0);
    assert_eq!(get(&http, &format!("http://localhost:{}/x", server.address.port())).await, "host");
    let error = http.get("http://orders/x").send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(format!("{error:?}").contains("orders"), "{error:?}");
}
