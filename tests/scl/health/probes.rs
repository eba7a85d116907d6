//! Probes by HTTP and TCP: cases 137 to 143, and 164.

use evenkeel::LoadBalancers;
use evenkeel::health::HttpProbe;

use super::*;
use crate::net::{Act, Refusing, Server, eventually, ok};

fn status(status: u16) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} -\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"))
}

fn properties(text: &str) -> Properties {
    let text =
        format!("evenkeel: {{configurations: health-check, health-check: {{fail-open: false, {text}}}}}");
    Properties::parse(&text, Format::Yaml, "application.yml").unwrap()
}

/// The service `orders` of these instances, of which `dead` is left out once the first round is over.
async fn after_a_round(text: &str, instances: Vec<ServiceInstance>) -> LoadBalancer {
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    let lb = LoadBalancers::from_properties(properties(text), registry).unwrap().get("orders").unwrap();
    pick(&lb).await;
    eventually("the first round", || lb.snapshot().unwrap().version() >= 2).await;
    lb
}

fn request_line(server: &Server) -> String {
    server.heads().first().and_then(|head| head.lines().next()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn scl_137_the_path_of_the_service_is_asked() {
    let (server, dead) = (Server::start(ok("")).await, Refusing::new());
    let all = vec![server.instance("a"), dead.instance("dead")];
    let lb = after_a_round("path: {orders: /health}", all).await;
    assert_eq!((usable(&lb), request_line(&server)), ("a".to_owned(), "GET /health HTTP/1.1".to_owned()));
}

#[tokio::test]
async fn scl_138_a_null_path_is_none_so_that_the_default_is_asked() {
    let (server, dead) = (Server::start(ok("")).await, Refusing::new());
    let all = vec![server.instance("a"), dead.instance("dead")];
    let lb = after_a_round("path: {orders: null}", all).await;
    let line = "GET /actuator/health HTTP/1.1".to_owned();
    assert_eq!((usable(&lb), request_line(&server)), ("a".to_owned(), line));
}

#[tokio::test(start_paused = true)]
async fn scl_139_an_empty_path_asks_nobody_and_all_are_alive() {
    for (path, probes) in [("''", false), ("' '", false), ("/health", true)] {
        let effective = properties(&format!("path: {{orders: {path}}}")).effective("orders");
        // Nobody listens there.
        let registry = SimpleDiscovery::new().with_instances("orders", list("a b")).unwrap();
        let supplier = chain(registry).with_properties(&effective).build().unwrap();
        assert_eq!(format!("{supplier:?}").contains("HealthStage"), probes, "{path}");
        if !probes {
            let lb = LoadBalancer::builder(supplier).build();
            pick(&lb).await;
            advance(300.0).await;
            even(&picks(&lb, 10).await, "a b", 5, 0);
        }
    }
}

/// A probe of one's own, which asks nobody.
#[derive(Debug)]
struct Trusts;

#[async_trait]
impl HealthProbe for Trusts {
    async fn check(&self, _: &ServiceInstance) -> Result<(), ProbeError> {
        Ok(())
    }
}

#[tokio::test]
async fn scl_140_every_kind_of_probe_says_the_same_of_who_is_alive() {
    let server = Server::start(ok("")).await;
    let own = reqwest::Client::builder().no_proxy().build().unwrap();
    let probes: [Arc<dyn HealthProbe>; 4] = [
        Arc::new(HttpProbe::new("/health").unwrap()),
        Arc::new(HttpProbe::new("/health").unwrap().with_client(own)),
        Arc::new(TcpProbe::default()),
        Arc::new(Trusts),
    ];
    for probe in probes {
        assert_eq!(probe.check(&server.instance("a")).await, Ok(()), "{probe:?}");
    }
    assert_eq!(server.served(), 2);
}

#[tokio::test]
async fn scl_141_a_path_that_is_not_there_is_not_alive_with_every_client() {
    let server = Server::start(status(404)).await;
    let own = reqwest::Client::builder().no_proxy().build().unwrap();
    for probe in [HttpProbe::new("/no").unwrap(), HttpProbe::new("/no").unwrap().with_client(own)] {
        assert_eq!(probe.check(&server.instance("a")).await, Err(ProbeError::new("status 404")));
    }
}

#[tokio::test]
async fn scl_142_a_query_goes_out_as_it_is() {
    let (server, dead) = (Server::start(ok("")).await, Refusing::new());
    let all = vec![server.instance("a"), dead.instance("dead")];
    let lb = after_a_round("path: {orders: '/health?someparam=somevalue&x=%20'}", all).await;
    assert_eq!(usable(&lb), "a");
    assert_eq!(request_line(&server), "GET /health?someparam=somevalue&x=%20 HTTP/1.1");
}

#[tokio::test]
async fn scl_143_the_port_that_is_set_is_asked_instead_of_the_instances_own() {
    let (server, dead) = (Server::start(ok("")).await, Refusing::new());
    let port = server.address.port();
    assert_ne!(dead.instance("a").port(), Some(port));
    for (probe, asked) in [("http", 1), ("tcp", 0)] {
        let text = format!("probe: {probe}, path: /health, port: {port}");
        // Of one, nothing listens at its host either.
        let away = ServiceInstance::builder("127.77.0.1").port(1).id("away").build().unwrap();
        let before = (server.served(), server.connections());
        let lb = after_a_round(&text, vec![dead.instance("a"), away]).await;
        assert_eq!(usable(&lb), "a");
        assert_eq!((server.served() - before.0, server.connections() - before.1), (asked, 1));
    }
    assert_eq!(crate::net::header(&server.heads()[0], "host"), Some(&*format!("127.0.0.1:{port}")));
}

#[tokio::test]
async fn scl_164_no_content_and_a_redirect_are_not_alive() {
    for code in [204, 302, 500] {
        let server = Server::start(status(code)).await;
        let probe = HttpProbe::new("/health").unwrap();
        let why = ProbeError::new(format!("status {code}"));
        assert_eq!(probe.check(&server.instance("a")).await, Err(why));
        assert_eq!(server.served(), 1, "a redirect is not followed");
        assert_eq!(probe.with_statuses([code]).check(&server.instance("a")).await, Ok(()));
    }
}
