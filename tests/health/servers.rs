//! Checks of real servers: wrong paths, redirects, a path for each service.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::config::{Format, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::{HealthCheck, HealthProbe, HttpProbe, ProbeError};
use evenkeel::policy::RoundRobin;
use evenkeel::{ChooseErrorKind, LoadBalancer, LoadBalancers, Reason, Request, ServiceInstance};

use crate::net::{Act, Refusing, Server, client, eventually, ok};
use crate::support::*;

fn status(status: u16) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n"))
}

/// Three servers that answer 404 on the path of the check.
async fn wrong_path(fail_open: bool) -> (Vec<Server>, LoadBalancer) {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(status(404)).await);
    }
    let instances =
        ["a", "b", "c"].into_iter().zip(&servers).map(|(id, server)| server.instance(id)).collect();
    let check = HealthCheck::http("/wrong/path").unwrap().with_fail_open(fail_open);
    // Many rounds, so that a warning per round would show.
    let check = check.with_interval(Duration::from_millis(20));
    let lb = fixed(instances, |chain| chain.with_health_checks(check), RoundRobin::default());
    drop(lb.choose(&Request::EMPTY).await);
    eventually("three rounds", || servers.iter().all(|server| server.served() >= 3)).await;
    (servers, lb)
}

#[tokio::test]
async fn case_014_a_wrong_path_takes_nobody_out_and_is_told_once() {
    let log = Log::default();
    let _guard = log.capture();
    let (_servers, lb) = wrong_path(true).await;
    let all = picks(&lb, 30).await;
    even(&all, "a b c", 10, 0);
    assert_eq!(log.count("no instance passes its health check"), 1, "{}", log.text());
    let text = log.text();
    let line = text.lines().find(|line| line.contains("no instance passes")).unwrap();
    for part in ["WARN", "orders", "/wrong/path", "3 with status 404", "fail_open=true"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn case_014_failing_closed_is_a_typed_error_that_says_why() {
    let (_servers, lb) = wrong_path(false).await;
    let error = lb.choose(&Request::EMPTY).await.unwrap_err();
    let ChooseErrorKind::NoInstances { reason, known, .. } = error.kind() else { panic!("{error}") };
    assert_eq!((*reason, *known), (Reason::AllUnhealthy, 3));
    assert!(error.to_string().contains("3 with status 404"), "{error}");
}

#[tokio::test]
async fn case_014_a_redirect_is_a_success_only_if_it_is_listed() {
    let (other, d) = (Server::start(ok("")).await, "HTTP/1.1 302 Found\r\nlocation: http://");
    let d = format!("{d}{}/login\r\ncontent-length: 0\r\n\r\n", other.address);
    let d = Server::start(Act::Answer(d)).await;
    let probe = HttpProbe::new("/health").unwrap();
    assert!(probe.check(&d.instance("d")).await.is_err());
    assert!(probe.with_statuses([200, 302]).check(&d.instance("d")).await.is_ok());
    assert_eq!((d.served(), other.connections()), (2, 0));
}

/// `billing` has a path of its own; both inherit that a call goes once to another instance.
const TWO_SERVICES: &str = "
evenkeel:
  configurations: health-check
  health-check.path: /health
  clients:
    billing:
      cache.ttl: 5s
      health-check.path: /hc
    orders.enabled: true
";

#[tokio::test]
async fn case_053_each_service_is_probed_on_its_own_path_and_inherits_the_rest() {
    let (billing, orders) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let registry = SimpleDiscovery::new()
        .with_instances("billing", [billing.instance("a")])
        .and_then(|registry| registry.with_instances("orders", [orders.instance("a")]))
        .unwrap();
    let properties = Properties::parse(TWO_SERVICES, Format::Yaml, "application.yml").unwrap();
    assert_eq!(properties.warnings(), []);
    let balancers = LoadBalancers::from_properties(properties.clone(), registry).unwrap();
    for (name, server, path) in [("billing", &billing, "/hc"), ("orders", &orders, "/health")] {
        pick(&balancers.get(name).unwrap()).await;
        eventually("a probe", || server.served() > 0).await;
        assert!(server.heads()[0].starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{:?}", server.heads());
    }
    assert!(properties.clone().set_for("billing", "health-check.pth", "/x").is_err(), "an unknown key");

    // A call that cannot be sent: one attempt, and one more on another instance.
    let dead = [Refusing::new(), Refusing::new(), Refusing::new()];
    let all = || dead.iter().zip(["a", "b", "c"]).map(|(dead, id)| dead.instance(id));
    let registry = SimpleDiscovery::new()
        .with_instances("billing", all())
        .and_then(|registry| registry.with_instances("orders", all()))
        .unwrap();
    let http = client(&LoadBalancers::from_properties(properties, registry).unwrap());
    for url in ["lb://billing/x", "lb://orders/x"] {
        let error = http.get(url).send().await.unwrap_err();
        assert_eq!(error.tried().len(), 2, "{error}");
    }
}

/// A server on loopback that answers every request so, and counts them.
async fn server(status: u16, location: Option<String>) -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hits);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (count, location) = (Arc::clone(&count), location.clone());
            let service =
                hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let mut answer = hyper::Response::builder().status(status);
                    if let Some(location) = &location {
                        answer = answer.header("location", location);
                    }
                    if request.uri() == "/health?deep=1" && status == 404 {
                        answer = hyper::Response::builder().status(200);
                    }
                    let answer = answer.body(http_body_util::Full::new(hyper::body::Bytes::new())).unwrap();
                    async move { Ok::<_, Infallible>(answer) }
                });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(hyper_util::rt::TokioIo::new(stream), service));
        }
    });
    (port, hits)
}

fn at(id: &str, port: u16) -> ServiceInstance {
    ServiceInstance::builder("127.0.0.1").port(port).id(id).build().unwrap()
}

/// Waits until the prober has published, as the version of the list tells.
async fn version(lb: &LoadBalancer, at_least: u64) {
    let mut changes = lb.changes();
    let reached = async { changes.wait_for(|version| *version >= at_least).await.map(|_| ()) };
    tokio::time::timeout(Duration::from_secs(10), reached).await.unwrap().unwrap();
}

#[tokio::test]
async fn case_014_a_redirect_is_not_followed_and_is_no_success() {
    let (other, other_hits) = server(200, None).await;
    let (d, _) = server(302, Some(format!("http://127.0.0.1:{other}/login"))).await;
    let (e, _) = server(200, None).await;
    let lb = fixed(
        vec![at("d", d), at("e", e)],
        |chain| chain.with_health_checks(HealthCheck::http("/actuator/health").unwrap()),
        RoundRobin::default(),
    );
    pick(&lb).await;
    version(&lb, 2).await;
    assert!(picks(&lb, 30).await.iter().all(|id| id == "e"));
    assert_eq!(other_hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn scl_141_142_a_missing_path_is_not_alive_and_a_query_reaches_the_server() {
    let (wrong, _) = server(404, None).await;
    let (right, _) = server(200, None).await;
    let build = |path: &str| {
        fixed(
            vec![at("wrong", wrong), at("right", right)],
            |chain| chain.with_health_checks(HealthCheck::http(path).unwrap()),
            RoundRobin::default(),
        )
    };
    let lb = build("actuator/health");
    pick(&lb).await;
    version(&lb, 2).await;
    assert!(picks(&lb, 10).await.iter().all(|id| id == "right"));
    let lb = build("/health?deep=1");
    pick(&lb).await;
    // Both pass, so that the list does not change: ask the probe itself.
    let probe = evenkeel::health::HttpProbe::new("/health?deep=1").unwrap();
    assert_eq!(probe.check(&at("wrong", wrong)).await, Ok(()));
    let probe = evenkeel::health::HttpProbe::new("/health").unwrap();
    assert_eq!(probe.check(&at("wrong", wrong)).await, Err(ProbeError::new("status 404")));
    assert_eq!(probe.clone().with_statuses([404]).check(&at("wrong", wrong)).await, Ok(()));
    assert_eq!(probe.with_port(right).check(&at("wrong", wrong)).await, Ok(()));
}

#[tokio::test]
async fn a_tcp_probe_finds_out_who_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let closed = {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap().port()
    };
    let probe = evenkeel::health::TcpProbe::default();
    assert_eq!(probe.check(&at("a", open)).await, Ok(()));
    assert_eq!(probe.check(&at("b", closed)).await, Err(ProbeError::new("connection refused")));
    assert_eq!(probe.with_port(open).check(&at("b", closed)).await, Ok(()));
}

#[tokio::test]
async fn case_053_properties_switch_checks_on_and_a_blank_path_off() {
    // Nobody listens on these ports.
    let dead = |id: &str| at(id, 1).to_builder().id(id).build().unwrap();
    let registry = evenkeel::discovery::SimpleDiscovery::new()
        .with_instances("orders", [dead("a"), dead("b")])
        .unwrap()
        .with_instances("quiet", [dead("a")])
        .unwrap();
    let properties = Properties::default()
        .set("configurations", "health-check")
        .and_then(|p| p.set("health-check.fail-open", false))
        .and_then(|p| p.set_for("orders", "health-check.probe", "tcp"))
        .and_then(|p| p.set("health-check.path.quiet", ""))
        .unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let orders = balancers.get("orders").unwrap();
    orders.ready().await.unwrap();
    let mut changes = orders.changes();
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, changes.wait_for(|version| *version >= 2)).await.unwrap().unwrap();
    let error = orders.choose(&Request::EMPTY).await.unwrap_err();
    assert!(error.to_string().contains("2 with connection refused"), "{error}");
    let quiet = balancers.get("quiet").unwrap();
    assert_eq!(picks(&quiet, 10).await, ["a"; 10], "a blank path switches the check off");
    assert_eq!(quiet.snapshot().unwrap().version(), 1);
}
