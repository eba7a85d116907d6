//! Sticky sessions on real sockets: a target that died, and cookies that somebody forged.

use super::net::*;
use super::support::{Client, client, get, via};
use evenkeel::LoadBalancers;
use evenkeel::client::Via;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::supplier::StickySession;

fn properties() -> Properties {
    Properties::default().set("configurations", "request-based-sticky-session").unwrap()
}

async fn call(http: &Client, cookie: &str) -> Via {
    let mut request = get("lb://orders/x");
    request.headers_mut().insert("cookie", format!("sc-lb-instance-id={cookie}").parse().unwrap());
    let response = http.request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    via(&response)
}

#[tokio::test]
async fn case_019_a_user_of_a_dead_server_is_served_by_one_other_from_then_on() {
    let (a, b, c) = (Refusing::new(), Server::start(ok("")).await, Server::start(ok("")).await);
    let http = client(&balancers([a.instance("a"), b.instance("b"), c.instance("c")], properties()));
    let mut cookie = "a".to_owned();
    let (mut attempts, mut served) = (0, Vec::new());
    for _ in 0..10 {
        let via = call(&http, &cookie).await;
        attempts += via.attempts();
        served.push(via.instance().id().to_owned());
        cookie = StickySession::default().value(via.instance());
    }
    assert_eq!(attempts, 11, "one of them on the dead server");
    assert!(served.iter().all(|id| *id == served[0]), "{served:?}");
    assert_eq!(b.served() + c.served(), 10);
    let gone = call(&http, "nobody").await;
    assert_eq!(gone.attempts(), 1);
}

#[tokio::test]
async fn case_020_a_forged_cookie_opens_no_connection_to_anybody_else() {
    let (one, two) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let (nine, trap) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [one.instance("i-1"), two.instance("i-2")])
        .and_then(|registry| registry.with_instances("admin", [nine.instance("i-9")]))
        .unwrap();
    let http = client(&LoadBalancers::from_properties(properties(), registry).unwrap());
    let (url, address) = (format!("http://{}", trap.address), trap.address.to_string());
    let long = "x!".repeat(4_096);
    for value in [&*url, &address, "i-9", "i-1%00", "../../i-1", &long, ""] {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.push(call(&http, value).await.instance().id().to_owned());
        }
        let of = |id: &str| seen.iter().filter(|seen| *seen == id).count();
        assert_eq!((of("i-1"), of("i-2")), (10, 10), "{:?}", &value[..value.len().min(40)]);
    }
    for _ in 0..20 {
        assert_eq!(call(&http, "i-2; sc-lb-instance-id=i-1").await.instance().id(), "i-2");
    }
    assert_eq!((trap.connections(), nine.connections()), (0, 0));
}
