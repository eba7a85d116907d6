//! Reports of load in the headers of replies.

use super::net::*;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, LoadReport};

fn reporting(cpu: f64) -> Act {
    Act::Answer(format!(
        "HTTP/1.1 200 OK\r\nendpoint-load-metrics: JSON {{\"cpu_utilization\": {cpu}, \"rps_fractional\": 100}}\r\n\
         content-length: 0\r\n\r\n"
    ))
}

#[tokio::test]
async fn replies_tell_the_policy_how_loaded_their_instances_are() {
    let servers = [Server::start(reporting(0.75)).await, Server::start(reporting(0.25)).await];
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [servers[0].instance("busy"), servers[1].instance("free")])
        .unwrap();
    let properties = Properties::default()
        .set_for("orders", "policy", "client-side-weighted-round-robin")
        .and_then(|properties| properties.set_for("orders", "policy-options.blackout", "0s"))
        .and_then(|properties| properties.set_for("orders", "policy-options.update-period", "100ms"))
        .unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let http = client(&balancers);
    for _ in 0..4 {
        http.get("lb://orders/").send().await.unwrap().bytes().await.unwrap();
    }
    // Real sockets have a real clock: until the weights are due.
    tokio::time::sleep(std::time::Duration::from_millis(120)).await;
    let before: usize = servers.iter().map(Server::served).sum();
    let free = servers[1].served();
    for _ in 0..96 {
        http.get("lb://orders/").send().await.unwrap().bytes().await.unwrap();
    }
    let all = servers.iter().map(Server::served).sum::<usize>() - before;
    // 400 beside 133: three quarters, but for the turns until the first look.
    let share = (servers[1].served() - free) * 100 / all;
    assert!((65..=78).contains(&share), "{share} %");
}

#[tokio::test]
async fn a_response_that_is_tracked_by_hand_is_heard() {
    let server = Server::start(reporting(0.5)).await;
    let registry = SimpleDiscovery::new().with_instances("orders", [server.instance("a")]).unwrap();
    let properties = Properties::default().set_for("orders", "policy", "adaptive").unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let lb = balancers.get("orders").unwrap();
    let choice = lb.choose(&evenkeel::Request::EMPTY).await.unwrap();
    let url = choice.url("/").unwrap();
    let response = reqwest::get(url).await.unwrap();
    let expected = LoadReport::default().with_qps(100.0).with_cpu_utilization(0.5);
    assert_eq!(LoadReport::from_headers(response.headers()), Ok(Some(expected)));
    let tracked = choice.track(response);
    let state = lb.snapshot().unwrap().instances().next().map(std::sync::Arc::clone).unwrap();
    assert_eq!(state.statistics().unwrap().reported_cpu(), Some(0.5));
    drop(tracked);
}
