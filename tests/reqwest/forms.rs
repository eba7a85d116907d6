//! Names of services in URLs; what is balanced and what goes out untouched; whose settings a client has.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::net::*;
use evenkeel::client::reqwest::Via;
use evenkeel::config::{LiveProperties, Properties};
use evenkeel::discovery::{DiscoveryClient, SimpleDiscovery, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};

/// A registry with the ids of case 047; one that tells cases apart, or one that does not.
#[derive(Clone, Debug)]
struct Registry {
    names: HashMap<String, ServiceInstance>,
    exact: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    fn new(servers: &[(&str, &Server)], exact: bool) -> Self {
        let names = servers.iter().map(|(name, server)| ((*name).to_owned(), server.instance(name)));
        Self { names: names.collect(), exact, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl DiscoveryClient for Registry {
    fn name(&self) -> &'static str {
        "fake"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let name = service.as_str();
        self.asked.lock().unwrap().push(name.to_owned());
        let is = |known: &str| if self.exact { known == name } else { known.eq_ignore_ascii_case(name) };
        Ok(self.names.iter().filter(|(known, _)| is(known)).map(|(_, instance)| instance.clone()).collect())
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(self.names.keys().map(|name| ServiceId::new(name).unwrap()).collect())
    }
}

const NAMES: [&str; 3] = ["order_service", "ORDER-SERVICE", "Billing.Api-v2"];
const URLS: [(&str, &str); 5] = [
    ("lb://order_service/p", "order_service"),
    ("http://ORDER-SERVICE/p", "ORDER-SERVICE"),
    ("http://order-service/p", "ORDER-SERVICE"),
    ("lb://order-service./p", "ORDER-SERVICE"),
    ("lb://Billing.Api-v2/p", "Billing.Api-v2"),
];

#[tokio::test]
async fn case_047_every_spelling_reaches_its_service_in_both_kinds_of_registry() {
    let servers = [Server::start(ok("0")).await, Server::start(ok("1")).await, Server::start(ok("2")).await];
    let named: Vec<_> = NAMES.into_iter().zip(&servers).collect();
    for exact in [true, false] {
        for listed in [true, false] {
            let registry = Registry::new(&named, exact);
            let mut properties = Properties::default();
            if !listed {
                properties = properties.set_for("ORDER-SERVICE", "cache.ttl", "35s").unwrap();
            }
            let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
            if listed {
                assert!(!balancers.is_known("order-service"));
                assert_eq!(balancers.list_services().await.unwrap().len(), 3);
            }
            let http = client(&balancers);
            for (url, service) in URLS {
                let response = http.get(url).send().await.unwrap();
                assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), service, "{url}");
            }
            for name in NAMES {
                balancers.get(name).unwrap().ready().await.unwrap();
            }
            let mut asked = registry.asked();
            asked.sort_unstable();
            // In the registry's own spelling, and once for all spellings of one service.
            assert_eq!(asked, ["Billing.Api-v2", "ORDER-SERVICE", "order_service"]);
            assert_eq!(balancers.services().len(), 3);
        }
    }
}

#[tokio::test]
async fn case_047_bad_names_are_errors_that_quote_them() {
    let registry = Registry::new(&[], true);
    let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
    let http = client(&balancers);
    for url in ["lb:///p", "lb:p", "lb://", "http://bad%20id/p", "no url", ""] {
        let error = http.get(url).send().await.unwrap_err();
        assert!(error.is_invalid_url() && error.to_string().contains(&format!("{url:?}")), "{error}");
    }
    let error = http.get("lb://bad%20id/p").send().await.unwrap_err();
    assert!(error.build_error().is_some() && error.to_string().contains("bad%20id"), "{error}");
    let finished = reqwest::Request::new(reqwest::Method::GET, "lb:///p".parse().unwrap());
    let error = http.execute(finished).await.unwrap_err();
    assert!(error.is_invalid_url() && error.to_string().contains("\"lb:///p\""), "{error}");
    for name in ["", "bad id", "a/b"] {
        let error = balancers.get(name).unwrap_err();
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    assert!(registry.asked().is_empty() && balancers.services().is_empty());
}

#[tokio::test]
async fn what_nobody_configured_goes_out_untouched() {
    if std::env::vars().any(|(name, _)| name.eq_ignore_ascii_case("http_proxy")) {
        eprintln!("skipped: calls that are not balanced go through the proxy of the environment");
        return;
    }
    let (plain, off) = (Server::start(ok("plain")).await, Server::start(ok("off")).await);
    let properties = Properties::default().set_for("localhost", "enabled", false).unwrap();
    let http = client(&balancers([plain.instance("a")], properties));
    for host in ["127.0.0.1", "orders", "localhost"] {
        assert_eq!(http.balancers().is_known(host), host == "orders");
    }
    let response = http.get(format!("http://{}/x", plain.address)).send().await.unwrap();
    assert!(response.extensions().get::<Via>().is_none());
    assert_eq!(response.text().await.unwrap(), "plain");
    let response = http.get(format!("http://localhost:{}/x", off.address.port())).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "off");
    let error = http.get("lb://localhost/x").send().await.unwrap_err();
    assert!(error.build_error().unwrap().reason().contains("enabled: false"), "{error}");
    assert_eq!(http.balancers().services().len(), 0, "nobody asked for a balancer");
}

/// The environment of a process cannot be changed safely, so this runs itself with another one.
#[tokio::test]
async fn an_instance_is_called_past_the_proxies_of_the_environment() {
    const CHILD: &str = "EVENKEEL_TEST_WITH_PROXY";
    if std::env::var_os(CHILD).is_none() {
        let name = "forms::an_instance_is_called_past_the_proxies_of_the_environment";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(CHILD, "1").env_remove("NO_PROXY").env_remove("no_proxy");
        for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            // Nobody listens there.
            child.env(variable, "http://127.0.0.1:9");
        }
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (server, proxy) = (Server::start(ok("direct")).await, Server::start(ok("by proxy")).await);
    let balancers = balancers([server.instance("a")], Properties::default());
    let text = client(&balancers).get("lb://orders/x").send().await.unwrap().text().await.unwrap();
    assert_eq!(text, "direct");
    let address = format!("http://{}", proxy.address);
    let own =
        move |_: &ServiceInstance| reqwest::Client::builder().proxy(reqwest::Proxy::http(&address).unwrap());
    let http = balancers.reqwest(own).unwrap();
    let text = http.get("lb://orders/x").send().await.unwrap().text().await.unwrap();
    assert_eq!(text, "by proxy", "the proxy that the code gave");
}

#[tokio::test]
async fn each_instance_has_one_client_of_its_own_as_long_as_it_is_listed() {
    let (a, b) = (Server::start(ok("a")).await, Server::start(ok("b")).await);
    let orders = ServiceId::new("orders").unwrap();
    let registry = SimpleDiscovery::new().with_instances("orders", [a.instance("a")]).unwrap();
    let live = LiveProperties::new(Properties::default());
    let balancers = LoadBalancers::builder(registry.clone()).live(live.clone()).build().unwrap();
    let clients: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&clients);
    let make = move |instance: &ServiceInstance| {
        log.lock().unwrap().push(instance.id().to_owned());
        reqwest::Client::builder()
    };
    let http = balancers.reqwest(make).unwrap();
    let call = async || http.get("lb://orders/x").send().await.unwrap().text().await.unwrap();
    for _ in 0..3 {
        call().await;
    }
    assert_eq!((clients.lock().unwrap().join(" "), a.connections()), ("a".to_owned(), 1));

    registry.set(&orders, [b.instance("b")]);
    let lb = balancers.get("orders").unwrap();
    eventually("the new list", || lb.snapshot().unwrap().version() == 2).await;
    assert_eq!(call().await, "b");
    registry.set(&orders, [a.instance("a")]);
    eventually("the old list", || lb.snapshot().unwrap().version() == 3).await;
    assert_eq!(call().await, "a");
    assert_eq!(clients.lock().unwrap().join(" "), "a b a", "a client goes with its instance");

    live.reload(|current| current.clone().set("connect-timeout", "2s")).unwrap();
    eventually("the change", || balancers.properties(&orders).connect_timeout.as_secs() == 2).await;
    call().await;
    call().await;
    assert_eq!(clients.lock().unwrap().join(" "), "a b a a", "another connect time-out needs another client");
}

#[tokio::test]
async fn a_client_is_never_that_of_an_instance_of_an_earlier_balancer() {
    let (a, b) = (Server::start(ok("a")).await, Server::start(ok("b")).await);
    let registry = SimpleDiscovery::new();
    let properties = Properties::default().set("cache.capacity", 1).unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry.clone()).unwrap();
    let clients: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&clients);
    let http = balancers
        .reqwest(move |instance| {
            log.lock().unwrap().push(instance.id().to_owned());
            reqwest::Client::builder()
        })
        .unwrap();
    for (server, id) in [(&a, "a"), (&b, "b")] {
        registry.set(&ServiceId::new("orders").unwrap(), [server.instance(id)]);
        let text = http.get("lb://orders/x").send().await.unwrap().text().await.unwrap();
        assert_eq!(text, id);
        // The name is pushed out: its next balancer counts its instances from the start.
        balancers.get("other").unwrap();
        assert_eq!(balancers.services().len(), 1);
    }
    assert_eq!(clients.lock().unwrap().join(" "), "a b");
}
