//! Checks of real servers: wrong paths, redirects, a path for each service.

use std::time::Duration;

use evenkeel::config::{Format, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::health::{HealthCheck, HealthProbe, HttpProbe};
use evenkeel::policy::RoundRobin;
use evenkeel::{ChooseErrorKind, LoadBalancer, LoadBalancers, Reason, Request};

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
