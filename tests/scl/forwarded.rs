//! 3.25 X-Forwarded and the zone of Eureka: cases 311 to 315.

use evenkeel::client::LoadBalancerClient;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, Outcome, Request, ServiceInstance};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::net::{Server, balancers, client, header, ok};
use crate::support::instance;

/// The headers of these names with which a request for `url` reaches its instance.
async fn sent(properties: &[(&str, &str)], url: &str, given: &[(&str, &str)]) -> HeaderMap {
    let set = |all: Properties, (key, value): &(&str, &str)| all.set(key, value).unwrap();
    let properties = properties.iter().fold(Properties::default(), set);
    let registry = SimpleDiscovery::new().with_instances("orders", [instance("a")]).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(properties, registry).unwrap());
    let judge = |_: Result<&HeaderMap, &evenkeel::TargetError>| Outcome::Success;
    let send = |attempt: evenkeel::client::Attempt<'_>| {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut headers: HeaderMap = given.iter().map(pair).collect();
        let prepared = attempt.prepare(&Method::GET, url, &mut headers);
        async move { prepared.map(|_| headers) }
    };
    client.execute("orders", &Request::EMPTY, judge, send).await.unwrap().response
}

fn is(headers: &HeaderMap, name: &str, value: Option<&str>) {
    assert_eq!(headers.get(name).map(|value| value.to_str().unwrap()), value, "{name}");
}

const ON: (&str, &str) = ("x-forwarded.enabled", "true");

#[tokio::test]
async fn scl_311_the_logical_address_goes_along() {
    let headers = sent(&[ON], "https://spring.io", &[]).await;
    is(&headers, "x-forwarded-host", Some("spring.io"));
    is(&headers, "x-forwarded-proto", Some("https"));
    is(&headers, "x-forwarded-port", Some("443"));
    is(&headers, "x-forwarded-prefix", None);
    is(&headers, "forwarded", None);
    for (url, host, proto, port) in [
        ("lb://orders/a?b#c", "orders", "http", "80"),
        ("wss://me:pw@orders:9443?x=a@b", "orders:9443", "https", "9443"),
        ("lb:https://orders/a", "orders", "https", "443"),
        ("http://[2001:db8::1]/a:1", "[2001:db8::1]", "http", "80"),
        ("http://[2001:db8::1]:81", "[2001:db8::1]:81", "http", "81"),
    ] {
        let headers = sent(&[ON], url, &[]).await;
        is(&headers, "x-forwarded-host", Some(host));
        is(&headers, "x-forwarded-proto", Some(proto));
        is(&headers, "x-forwarded-port", Some(port));
    }
}

#[tokio::test]
async fn what_the_first_caller_said_stays() {
    let given = [("x-forwarded-host", "shop.example"), ("forwarded", "for=192.0.2.1")];
    let on = [ON, ("x-forwarded.prefix", "/shop"), ("x-forwarded.forwarded", "true")];
    let headers = sent(&on, "lb://orders:81/", &given).await;
    is(&headers, "x-forwarded-host", Some("shop.example"));
    is(&headers, "x-forwarded-proto", Some("http"));
    is(&headers, "x-forwarded-prefix", Some("/shop"));
    let elements: Vec<_> = headers.get_all("forwarded").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(elements, ["for=192.0.2.1", "host=\"orders:81\";proto=http"]);
    let headers = sent(&[("x-forwarded.forwarded", "true")], "https://orders/", &[]).await;
    is(&headers, "forwarded", Some("host=orders;proto=https"));
    // A quote in the middle ends no value.
    let headers = sent(&[("x-forwarded.forwarded", "true")], r#"lb://o";for="\me/"#, &[]).await;
    is(&headers, "forwarded", Some(r#"host="o\";for=\"\\me";proto=http"#));
    is(&headers, "x-forwarded-host", None);
}

#[tokio::test]
async fn scl_312_it_is_off_by_default() {
    let headers = sent(&[], "https://spring.io", &[]).await;
    assert!(headers.is_empty(), "{headers:?}");
    // The prefix alone sends nothing.
    assert!(sent(&[("x-forwarded.prefix", "/p")], "https://spring.io", &[]).await.is_empty());
}

#[tokio::test]
async fn scl_313_what_has_no_instance_is_untouched() {
    let server = Server::start(ok("")).await;
    let properties = Properties::default().set("x-forwarded.enabled", true).unwrap();
    let http = client(&balancers([server.instance("a")], properties));
    http.get(format!("http://{}/", server.address)).send().await.unwrap();
    http.get("lb://orders/").send().await.unwrap();
    let heads = server.heads();
    assert_eq!(header(&heads[0], "x-forwarded-host"), None);
    assert_eq!(header(&heads[1], "x-forwarded-host"), Some("orders"));
}

#[tokio::test]
async fn scl_315_a_zone_that_is_configured_is_the_clients_zone() {
    let zoned = |id, zone| -> ServiceInstance { instance(id).to_builder().zone(zone).build().unwrap() };
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [zoned("a", "defaultZone"), zoned("b", "eu-1a")])
        .unwrap();
    let properties =
        Properties::default().set("zone", "eu-1a").unwrap().set("configurations", "zone-preference").unwrap();
    let lb = LoadBalancers::from_properties(properties, registry).unwrap().get("orders").unwrap();
    for _ in 0..4 {
        assert_eq!(crate::support::pick(&lb).await, "b");
    }
}
