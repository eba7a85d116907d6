//! Where a call goes: hosts, ports, schemes, names of services, and the bytes of a URL.
#![allow(clippy::unnecessary_literal_bound)] // as the trait writes it, and as its implementors do

mod support;

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::discovery::{DiscoveryClient, FileDiscovery, SimpleDiscovery, SimpleEntry, SupplyError};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::FixedSupplier;
use evenkeel::{
    ChooseErrorKind, LoadBalancer, Outcome, Reason, Request, ServiceId, ServiceInstance, SupplierBuilder,
    Target, async_trait,
};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers every request with 200 and hands over the head of each.
async fn server(host: &str) -> Option<(u16, tokio::sync::mpsc::UnboundedReceiver<String>)> {
    let listener = TcpListener::bind((host, 0)).await.ok()?;
    let port = listener.local_addr().ok()?.port();
    let (heads, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.is_ok_and(|n| n > 0) {}
            let _ = heads.send(String::from_utf8(head).unwrap());
            let _ =
                socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    });
    Some((port, seen))
}

/// Sends a request for `url` as a client does that takes the URL apart at its first slashes: the target as it is, the
/// authority as `Host`. Gives the status.
async fn get(url: &str) -> u16 {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(authority).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

// -------------------------------------------------------------------------------------------------------- IPv6: 046

#[tokio::test]
async fn case_046_ipv6_addresses_names_and_ipv4_side_by_side() {
    // Without an IPv6 loopback the IPv4 one stands in, so that the rest is tested all the same.
    let (host, (port, mut heads)) = match server("::1").await {
        Some(server) => ("::1", server),
        None => ("127.0.0.1", server("127.0.0.1").await.expect("a loopback")),
    };
    let live = host.parse::<std::net::IpAddr>().unwrap();
    let entry = |host: &str, port: u16| SimpleEntry::at(host, port);
    let entries = vec![
        entry("2001:db8::5", 8080),
        entry("[2001:db8::6]", 8080),
        entry(host, port),
        entry(&if live.is_ipv6() { format!("[{host}]") } else { host.to_owned() }, port),
        entry("node-3.example.internal", 8080),
        entry("10.0.0.7", 8080),
        entry("2001:db8:::5", 8080),
    ];
    let log = Log::default();
    let _guard = log.capture();
    let lb = balancer(SimpleDiscovery::from_entries([(orders(), entries)]));
    assert_eq!(log.count("2001:db8:::5"), 2, "one warning, with id and value: {}", log.text());
    let mut urls = HashMap::new();
    for _ in 0..500 {
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        *urls.entry(choice.url("/x").unwrap()).or_insert(0) += 1;
        choice.complete(Outcome::Success);
    }
    let at = std::net::SocketAddr::new(live, port);
    let expected = [
        "http://[2001:db8::5]:8080/x".to_owned(),
        "http://[2001:db8::6]:8080/x".to_owned(),
        format!("http://{at}/x"),
        "http://node-3.example.internal:8080/x".to_owned(),
        "http://10.0.0.7:8080/x".to_owned(),
    ];
    assert_eq!(
        urls,
        expected.clone().map(|url| (url, 100)).into(),
        "two spellings of one address are one instance"
    );
    assert_eq!(get(&expected[2]).await, 200);
    assert!(heads.recv().await.unwrap().contains(&format!("host: {at}\r\n")));
}

// -------------------------------------------------------------------------------------------- names of services: 047

/// A registry with three services; it compares names with or without case, and writes down how it was asked.
#[derive(Clone, Debug, Default)]
struct Registry {
    exact: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

const REGISTERED: [&str; 3] = ["order_service", "ORDER-SERVICE", "Billing.Api-v2"];

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &str {
        "registry"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        self.asked.lock().unwrap().push(service.as_str().to_owned());
        let found = REGISTERED
            .iter()
            .find(|name| if self.exact { **name == service.as_str() } else { service.matches(name) });
        Ok(found.map(|name| instance(&format!("at-{name}").replace('.', "-"))).into_iter().collect())
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(REGISTERED.iter().map(|name| ServiceId::new(name).unwrap()).collect())
    }
}

async fn reach(registry: &Registry, name: &str) -> String {
    let chain = SupplierBuilder::new(name).with_discovery_client(registry.clone());
    let lb = over(chain, RoundRobin::default());
    match lb.choose(&Request::EMPTY).await {
        Ok(choice) => choice.instance().id().to_owned(),
        Err(error) => format!("{:?}", error.kind()).chars().take_while(char::is_ascii_alphanumeric).collect(),
    }
}

#[tokio::test(start_paused = true)]
async fn case_047_every_registered_name_is_reached_as_it_is_written() {
    for exact in [true, false] {
        let registry = Registry { exact, ..Registry::default() };
        for name in registry.services().await.unwrap() {
            assert_eq!(reach(&registry, name.as_str()).await, format!("at-{name}").replace('.', "-"));
        }
        assert_eq!(
            *registry.asked.lock().unwrap(),
            REGISTERED,
            "the registry is asked with the spelling given"
        );
        // Another case reaches it where the registry does not mind, and nothing where it does.
        let other = reach(&registry, "order-service").await;
        assert_eq!(other, if exact { "NoInstances" } else { "at-ORDER-SERVICE" });
        assert_eq!(
            reach(&registry, "Billing.Api-v2.").await,
            "at-Billing-Api-v2",
            "a trailing dot does not count"
        );
        assert_eq!(registry.asked.lock().unwrap()[4], "Billing.Api-v2");
    }
}

#[tokio::test(start_paused = true)]
async fn case_047_two_spellings_are_one_key_and_one_service() {
    let mut balancers = HashMap::new();
    for name in ["ORDER-SERVICE", "order-service", "Order-Service."] {
        let id = ServiceId::new(name).unwrap();
        let make = || LoadBalancer::fixed(&id, list("a b")).unwrap();
        balancers.entry(id.clone()).or_insert_with(make);
    }
    assert_eq!(balancers.len(), 1);
    let shared = &balancers[&ServiceId::new("order-SERVICE").unwrap()];
    assert_eq!(shared.service_id().as_str(), "ORDER-SERVICE", "the spelling that came first");
    // A base may spell the service otherwise; it is the base's name that the registry is asked with.
    let base = FixedSupplier::new(ServiceId::new("ORDERS").unwrap(), list("a"));
    let lb = over(SupplierBuilder::new("orders").with_base(base), RoundRobin::default());
    assert_eq!(lb.service_id().as_str(), "ORDERS");
    assert_eq!(lb.choose(&Request::EMPTY).await.unwrap().instance().service_id(), Some(&orders()));
}

#[tokio::test(start_paused = true)]
async fn case_047_bad_names_are_quoted_and_nothing_is_asked() {
    let registry = Registry::default();
    for bad in ["", ".", "bad id", "bad%20id", "/p", "lb:///p", "a?b", "a\u{0}b"] {
        let error = SupplierBuilder::new(bad).with_discovery_client(registry.clone()).build().unwrap_err();
        assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        assert!(LoadBalancer::fixed(bad, []).unwrap_err().to_string().contains(&format!("{bad:?}")));
    }
    assert!(registry.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn scl_009_a_service_that_discovery_does_not_know_is_a_typed_error() {
    let lb = balancer(SimpleDiscovery::new().polling());
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(
        matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }),
        "{error}"
    );
    assert_eq!(error.service(), &orders());
}

// ---------------------------------------------------------------------------------------------- bytes of a URL: 049

const PATHS: [&str; 11] = [
    "/q?ids=%3CHello=World@mail.example%3E",
    "/?foo=%7C",
    "/a%2Fb",
    "/test%3Cscript%3E",
    "/a//b/",
    "/m;v=1/x",
    "/s?x=a+b&y=%20&z=",
    "/e?",
    "/p%c3%a9?%e9",
    "/100%25",
    "/x?next=http://svc/y/?z",
];

#[tokio::test]
async fn case_049_the_target_on_the_wire_is_the_one_given() {
    let (port, mut heads) = server("127.0.0.1").await.expect("a loopback");
    let one = ServiceInstance::new("127.0.0.1", port).unwrap();
    let lb = LoadBalancer::fixed("svc", [one]).unwrap();
    for path in PATHS {
        // From a path, from a whole URL with user info and a fragment, and once more as a retry.
        let choice = lb.choose(&Request::EMPTY).await.unwrap();
        let target = choice.target(Some("lb")).unwrap();
        let urls = [
            choice.url(path).unwrap(),
            target.rewrite(&format!("http://svc{path}")),
            target.rewrite(&format!("lb://user:pa%20ss@SVC:99{path}#frag?/{path}")),
        ];
        for url in urls {
            assert_eq!(url, format!("http://127.0.0.1:{port}{path}"));
            assert_eq!(get(&url).await, 200);
            let head = heads.recv().await.unwrap();
            assert_eq!(head, format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"));
        }
    }
}

// ----------------------------------------------------------------------------------------------------- schemes: 050

#[tokio::test(start_paused = true)]
async fn case_050_the_flag_of_the_instance_wins_over_the_scheme_of_the_request() {
    let at = |id: &str, port: u16| instance(id).to_builder().port(port);
    let instances = vec![
        at("p", 8080).secure(false).build().unwrap(),
        at("s", 8443).secure(true).build().unwrap(),
        at("u", 9000).build().unwrap(),
    ];
    let table = [
        (Some("http"), ["http://p.test:8080/x", "https://s.test:8443/x", "http://u.test:9000/x"]),
        (Some("https"), ["", "https://s.test:8443/x", "https://u.test:9000/x"]),
        (Some("lb"), ["http://p.test:8080/x", "https://s.test:8443/x", "http://u.test:9000/x"]),
        (Some("ws"), ["ws://p.test:8080/x", "wss://s.test:8443/x", "ws://u.test:9000/x"]),
        (None, ["http://p.test:8080/x", "https://s.test:8443/x", "http://u.test:9000/x"]),
    ];
    for downgrade in [false, true] {
        let base = FixedSupplier::new(orders(), instances.clone());
        let supplier = SupplierBuilder::new("orders").with_base(base).build().unwrap();
        let policy = RoundRobin::starting_at(-1);
        let lb = LoadBalancer::builder(supplier).policy(policy).allow_downgrade(downgrade).build();
        for (scheme, urls) in table {
            for (url, id) in urls.into_iter().zip(["p", "s", "u"]) {
                let choice = lb.choose(&Request::EMPTY).await.unwrap();
                assert_eq!(choice.instance().id(), id);
                match choice.target(scheme) {
                    Ok(target) if url.is_empty() => {
                        assert!(downgrade, "a request for https went in the clear");
                        assert_eq!(target.url("/x"), "http://p.test:8080/x");
                    }
                    Ok(target) => assert_eq!(target.url("/x"), url, "{scheme:?}"),
                    Err(error) => {
                        assert!(url.is_empty() && !downgrade, "{error}");
                        let text = error.to_string();
                        assert!(text.contains("p (p.test:8080) says secure: false"), "{text}");
                        assert_eq!(error.instance().id(), "p");
                    }
                }
            }
        }
    }
    // A scheme of its own wins over the flag, in either direction.
    for (flag, own) in [(false, "https"), (true, "http"), (true, "grpc")] {
        let instance = at("o", 1).secure(flag).scheme(own).build().unwrap();
        for scheme in [Some("http"), Some("https"), Some("lb"), Some("ws"), None] {
            assert_eq!(
                Target::of(&instance, scheme, false).unwrap().url("/x"),
                format!("{own}://o.test:1/x")
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_050_a_flag_in_configuration_is_a_value() {
    let entry = |id: &str, secure: Option<&str>| {
        let mut entry = SimpleEntry::at(format!("{id}.test"), 1);
        entry.set("instance-id", id);
        entry.secure = secure.map(str::to_owned);
        entry
    };
    let all = vec![entry("p", Some("false")), entry("s", Some("true")), entry("u", None)];
    let lb = balancer(SimpleDiscovery::from_entries([(orders(), all)]));
    lb.ready().await.unwrap();
    let snapshot = lb.snapshot().unwrap();
    let flags: Vec<_> = snapshot.instances().map(|state| state.instance().secure()).collect();
    assert_eq!(flags, [Some(false), Some(true), None]);
}

// ------------------------------------------------------------------------------------------------------- ports: 051

const PORTS: [(&str, &str); 4] = [("c", "0"), ("d", "-1"), ("e", "70000"), ("f", "80a")];

/// All 100 picks are of `a` (and `b`, which dials the scheme's port), and each bad entry was warned about once.
async fn only_the_good(lb: &LoadBalancer, log: &Log, bad: &[(&str, &str)]) {
    let all = picks(lb, 100).await;
    even(&all, "a b", 50, 1);
    let snapshot = lb.snapshot().unwrap();
    let b = snapshot.instances().find(|state| state.instance().id() == "b").unwrap().instance();
    assert_eq!(Target::of(&b, Some("https"), false).unwrap().url("/x"), "https://b.test/x");
    for (id, port) in bad {
        let warning = format!("instance \"{id}\" of service \"orders\" has port \"{port}\"");
        assert_eq!(log.count(&warning), 1, "{warning}: {}", log.text());
    }
}

#[tokio::test]
async fn case_051_bad_ports_of_a_configuration_cost_nobody_else_anything() {
    let entry = |(id, port): (&str, &str)| {
        let mut entry = SimpleEntry::at(format!("{id}.test"), port);
        entry.set("instance-id", id);
        entry
    };
    let mut without = entry(("b", ""));
    without.port = None;
    let good = [entry(("a", "8080")), without];
    let log = Log::default();
    let _guard = log.capture();
    let all = good.into_iter().chain(PORTS.map(entry)).collect();
    let only_bad = PORTS[..2].iter().copied().map(entry).collect();
    let second = ServiceId::new("second").unwrap();
    let source = SimpleDiscovery::from_entries([(orders(), all), (second.clone(), only_bad)]);
    only_the_good(&balancer(source.clone()), &log, &PORTS).await;
    let lb = over(SupplierBuilder::new(&second).with_discovery_client(source), RoundRobin::default());
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    assert!(
        matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }),
        "{error}"
    );
}

#[cfg(feature = "file")]
#[tokio::test]
async fn case_051_bad_ports_of_a_file_cost_nobody_else_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("registry.yml");
    let entry = |(id, port): (&str, &str)| format!("- {{id: {id}, host: {id}.test, port: {port}}}\n");
    let bad = PORTS.map(entry).concat();
    let good = entry(("a", "8080"));
    let only_bad = PORTS[..2].iter().copied().map(entry).collect::<String>();
    fs::write(&path, format!("orders:\n{good}- {{id: b, host: b.test}}\n{bad}second:\n{only_bad}")).unwrap();
    let log = Log::default();
    let _guard = log.capture();
    let source = FileDiscovery::new(&path).with_poll_interval(Duration::from_secs(3_600));
    only_the_good(&balancer(source.clone()), &log, &PORTS).await;
    let second = SupplierBuilder::new("second").with_discovery_client(source);
    let error = over(second, RoundRobin::default()).choose(&Request::EMPTY).await.unwrap_err();
    assert!(
        matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }),
        "{error}"
    );
}
