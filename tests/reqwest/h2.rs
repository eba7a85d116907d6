//! HTTP/2: connections that are cut off, servers that say goodbye; and connections that follow the list.

use std::time::Duration;

use super::hyper_server::Hyper;
use super::net::*;
use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use reqwest::Method;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

fn h2(_: &ServiceInstance) -> reqwest::ClientBuilder {
    reqwest::Client::builder().http2_prior_knowledge()
}

fn over_h2(instances: impl IntoIterator<Item = ServiceInstance>) -> Client {
    balancers(instances, Properties::default()).reqwest(h2).unwrap()
}

/// Accepts, reads, and says nothing: a host that is cut off looks so. Tells how many bytes came each time.
async fn silent() -> (ServiceInstance, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let read = async |stream: &TcpStream, tell: &mpsc::UnboundedSender<usize>| {
            let mut bytes = [0; 4096];
            loop {
                stream.readable().await?;
                match stream.try_read(&mut bytes) {
                    Ok(0) => return Ok(()),
                    Ok(length) => drop(tell.send(length)),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        };
        while let Ok((stream, _)) = listener.accept().await {
            let _ = read(&stream, &tell).await;
        }
    });
    (at(address, "silent"), told)
}

#[tokio::test]
async fn a_connection_that_is_cut_off_is_noticed_within_half_a_minute() {
    let (instance, mut told) = silent().await;
    let http = over_h2([instance]);
    let call = tokio::spawn(async move { http.post("lb://orders/x").body("once").send().await });
    told.recv().await.unwrap();
    // From here on nothing happens on the socket but what a timer does.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.tried()[0].id(), "silent");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(29) && took <= Duration::from_secs(31), "{took:?}");
}

#[tokio::test]
async fn a_safe_call_on_a_connection_that_is_cut_off_goes_to_another_instance() {
    let (instance, _told) = silent().await;
    let live = Hyper::start().await;
    let (interval, limit) = (Duration::from_secs(1), Duration::from_secs(2));
    let http = over_h2([instance, live.instance("b")]).with_http2_keep_alive(interval, limit);
    for _ in 0..2 {
        let response = http.get("lb://orders/x").send().await.unwrap();
        assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "b");
        assert_eq!(response.text().await.unwrap(), "HTTP/2.0");
    }
    assert_eq!(http.balancers().in_flight(), 0);
    // Without it nobody notices, until the call's own time is up.
    let (instance, _told) = silent().await;
    let http = over_h2([instance]).without_http2_keep_alive();
    let error = http.get("lb://orders/x").timeout(Duration::from_millis(800)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

#[tokio::test]
async fn no_call_fails_when_servers_say_goodbye() {
    let (one, two) = (Hyper::start().await, Hyper::start().await);
    let http = over_h2([one.instance("a"), two.instance("b")]);
    let mut calls = 0;
    for round in 0..20 {
        let mut side_by_side = Vec::new();
        for at in 0..10 {
            let method = if at % 2 == 0 { Method::GET } else { Method::POST };
            side_by_side.push(http.request(method, "lb://orders/x").body("body").send());
            if at == 5 {
                [&one, &two][round % 2].say_goodbye();
            }
        }
        for response in futures_util::future::join_all(side_by_side).await {
            assert_eq!(response.unwrap().text().await.unwrap(), "HTTP/2.0");
            calls += 1;
        }
    }
    assert_eq!((calls, one.served() + two.served()), (200, 200));
    assert!(one.accepted() > 5 && two.accepted() > 5, "{} {}", one.accepted(), two.accepted());
}

/// What each of these servers has got since `before`.
fn since(servers: &[Hyper], before: &[usize]) -> Vec<usize> {
    servers.iter().zip(before).map(|(server, before)| server.served() - before).collect()
}

async fn calls(http: &Client, n: usize) {
    for _ in 0..n {
        http.get("lb://orders/x").send().await.unwrap().bytes().await.unwrap();
    }
}

#[tokio::test]
async fn case_064_connections_follow_the_list_in_both_versions() {
    for (version, prior) in [("HTTP/1.1", false), ("HTTP/2.0", true)] {
        let mut servers = Vec::new();
        for _ in 0..8 {
            servers.push(Hyper::start().await);
        }
        let instances: Vec<_> =
            servers.iter().enumerate().map(|(at, server)| server.instance(&format!("n{at}"))).collect();
        let orders = ServiceId::new("orders").unwrap();
        let registry = SimpleDiscovery::new().with_instances("orders", instances[..4].to_vec()).unwrap();
        let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
        let http = balancers
            .reqwest(move |instance| if prior { h2(instance) } else { reqwest::Client::builder() })
            .unwrap();
        assert_eq!(http.get("lb://orders/x").send().await.unwrap().text().await.unwrap(), version);
        calls(&http, 149).await;
        assert_eq!(since(&servers[4..], &[0; 4]), [0; 4]);

        let lb = balancers.get("orders").unwrap();
        registry.set(&orders, instances.clone());
        eventually("eight", || lb.snapshot().unwrap().len() == 8).await;
        let before: Vec<_> = servers.iter().map(Hyper::served).collect();
        calls(&http, 128).await;
        assert_eq!(since(&servers, &before), [16; 8], "{version}: the choice is made for each request");

        registry.set(&orders, instances[2..].to_vec());
        eventually("six", || lb.snapshot().unwrap().len() == 6).await;
        let before: Vec<_> = servers.iter().map(Hyper::served).collect();
        calls(&http, 120).await;
        assert_eq!(since(&servers[..2], &before[..2]), [0; 2], "{version}");
        eventually("the end of their connections", || servers[..2].iter().all(|server| server.open() == 0))
            .await;
        assert!(servers[2..].iter().all(|server| (server.open(), server.accepted()) == (1, 1)));
    }
}
