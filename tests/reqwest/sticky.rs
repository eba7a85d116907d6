//! Sticky sessions on real sockets: a target that died, and cookies that somebody forged.

use std::time::Duration;

use super::net::*;
use evenkeel::client::reqwest::{Client, CookieStore, SetInstanceCookie, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::supplier::StickySession;
use evenkeel::{LoadBalancers, ServiceInstance};
use reqwest::Url;
use reqwest::cookie::{CookieStore as _, Jar};
use reqwest::header::HeaderValue;

fn properties(stages: &str) -> Properties {
    Properties::default()
        .set("configurations", stages)
        .and_then(|properties| properties.set("health-check.probe", "tcp"))
        .unwrap()
}

const STICKY: &str = "request-based-sticky-session";

async fn call(http: &Client, cookie: &str) -> Via {
    let request = http.get("lb://orders/x").header("cookie", format!("sc-lb-instance-id={cookie}"));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.extensions().get::<Via>().unwrap().clone()
}

#[tokio::test]
async fn case_019_a_user_of_a_dead_server_is_served_by_one_other_from_then_on() {
    let (a, b, c) = (Refusing::new(), Server::start(ok("")).await, Server::start(ok("")).await);
    let all = [a.instance("a"), b.instance("b"), c.instance("c")];
    let http = client(&balancers(all, properties(STICKY)));
    let mut cookie = "a".to_owned();
    let (mut attempts, mut served) = (0, Vec::new());
    for _ in 0..10 {
        let via = call(&http, &cookie).await;
        attempts += via.attempts();
        served.push(via.instance().id().to_owned());
        // What a Set-Cookie of the answer would hold.
        cookie = StickySession::default().value(via.instance());
    }
    assert_eq!(attempts, 11, "one of them on the dead server");
    assert!(served.iter().all(|id| *id == served[0]), "{served:?}");
    assert_eq!(b.served() + c.served(), 10);
    // Another user of the dead one: it is known by now, and not tried.
    let via = call(&http, "a").await;
    assert_eq!((via.attempts(), via.instance().id() == "a"), (1, false));
}

#[tokio::test]
async fn case_019_a_server_that_fails_its_health_check_is_not_tried_at_all() {
    let (a, b) = (Refusing::new(), Server::start(ok("")).await);
    let balancers =
        balancers([a.instance("a"), b.instance("b")], properties(&format!("{STICKY}, health-check")));
    let orders = balancers.get("orders").unwrap();
    orders.ready().await.unwrap();
    let mut changes = orders.changes();
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, changes.wait_for(|version| *version >= 2)).await.unwrap().unwrap();
    let http = client(&balancers);
    for _ in 0..5 {
        let via = call(&http, "a").await;
        assert_eq!((via.attempts(), via.instance().id()), (1, "b"));
    }
}

/// Printable, and without what ends a value.
fn random_text(length: usize) -> String {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 16) % 94).unwrap())
    };
    std::iter::repeat_with(&mut next).filter(|c| *c != ';').take(length).collect()
}

#[tokio::test]
async fn case_020_a_forged_cookie_opens_no_connection_to_anybody_else() {
    let (one, two) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let (nine, trap) = (Server::start(ok("")).await, Server::start(ok("")).await);
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [one.instance("i-1"), two.instance("i-2")])
        .and_then(|registry| registry.with_instances("admin", [nine.instance("i-9")]))
        .unwrap();
    let http = client(&LoadBalancers::from_properties(properties(STICKY), registry).unwrap());
    let (url, address) = (format!("http://{}", trap.address), trap.address.to_string());
    let long = random_text(8_192);
    for value in [&*url, &address, "i-9", "i-1%00", "../../i-1", &long, ""] {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.push(call(&http, value).await.instance().id().to_owned());
        }
        let of = |id: &str| seen.iter().filter(|seen| *seen == id).count();
        assert_eq!((of("i-1"), of("i-2")), (10, 10), "{:?}", &value[..value.len().min(40)]);
    }
    // The first of two, in one line or in two.
    for _ in 0..20 {
        assert_eq!(call(&http, "i-2; sc-lb-instance-id=i-1").await.instance().id(), "i-2");
        let request = http.get("lb://orders/x").header("cookie", "sc-lb-instance-id=i-2");
        let response = request.header("cookie", "sc-lb-instance-id=i-1").send().await.unwrap();
        assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "i-2");
    }
    // A line break is refused before anything is sent.
    let before = one.served() + two.served();
    let broken = http.get("lb://orders/x").header("cookie", "sc-lb-instance-id=i-1\r\nSet-Cookie: a=b");
    assert!(broken.send().await.is_err());
    assert_eq!(one.served() + two.served(), before);
    for head in one.heads().iter().chain(&two.heads()) {
        assert_eq!(header(head, "set-cookie"), None);
    }
    assert_eq!((trap.connections(), nine.connections()), (0, 0));
}

#[tokio::test]
async fn case_020_bytes_that_are_no_text_have_no_effect() {
    let bytes: Vec<u8> = (0..8_192_u32).map(|n| 0x80 | u8::try_from(n * 31 % 128).unwrap()).collect();
    let value = [b"sc-lb-instance-id=".as_slice(), &bytes].concat();
    let mut request = http::Request::new(());
    request.headers_mut().insert("cookie", http::HeaderValue::from_bytes(&value).unwrap());
    let view = evenkeel::HttpView::of(&request);
    let all = [1, 2].map(|port| ServiceInstance::new("h", port).unwrap());
    let orders = balancers(all, properties(STICKY)).get("orders").unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(orders.choose(&evenkeel::Request::of(&view)).await.unwrap().instance().id().to_owned());
    }
    assert_eq!(ids.iter().filter(|id| *id == "h:1").count(), 10, "{ids:?}");
}

/// One user.
#[derive(Debug, Default)]
struct Cookies(Jar);

impl CookieStore for Cookies {
    fn set_cookies(&self, lines: &mut dyn Iterator<Item = &HeaderValue>, url: &Url) {
        self.0.set_cookies(lines, url);
    }
    fn cookies(&self, url: &Url) -> Option<HeaderValue> {
        self.0.cookies(url)
    }
}

async fn served_by(http: &Client, url: &str) -> Via {
    let response = http.get(url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.extensions().get::<Via>().unwrap().clone()
}

#[tokio::test]
async fn case_019_a_client_with_cookies_leaves_a_dead_server_once_and_stays_with_the_next() {
    for hidden in [false, true] {
        let (a, b, c) =
            (Server::start(ok("")).await, Server::start(ok("")).await, Server::start(ok("")).await);
        let all = [a.instance("a"), b.instance("b"), c.instance("c")];
        let (mut properties, mut sticky) = (properties(STICKY), StickySession::default());
        if hidden {
            properties = properties.set("sticky-session.secret", "between us").unwrap();
            sticky = sticky.with_secret("between us");
        }
        let shared = client(&balancers(all, properties)).with_response_hook(SetInstanceCookie::new(sticky));
        let user = shared.with_cookies(Cookies::default());
        let first = served_by(&user, "lb://orders/x").await;
        for url in ["lb://orders/y", "http://orders/z?q", "lb://ORDERS/"] {
            assert_eq!(served_by(&user, url).await.instance(), first.instance(), "{url}");
        }
        let servers = [&a, &b, &c];
        let home = servers.iter().find(|server| server.served() > 0).unwrap();
        assert_eq!(home.served(), 4);
        let head = home.heads().pop().unwrap();
        let cookie = header(&head, "cookie").unwrap();
        let open = format!("sc-lb-instance-id={}", first.instance().id());
        assert_eq!((cookie == open, cookie.starts_with("sc-lb-instance-id=")), (!hidden, true), "{cookie}");
        // It dies: the first call finds out, and the others are where that one ended.
        home.kill();
        let (mut attempts, mut ids) = (0, Vec::new());
        for _ in 0..10 {
            let via = ends("a GET", served_by(&user, "lb://orders/x")).await;
            attempts += via.attempts();
            ids.push(via.instance().id().to_owned());
        }
        assert_eq!((attempts, home.served()), (11, 4));
        assert!(ids.iter().all(|id| *id == ids[0] && id != first.instance().id()), "{ids:?}");
        // Another user of the same client has cookies of its own.
        let other = shared.with_cookies(Cookies::default());
        served_by(&other, "lb://orders/x").await;
        let last =
            servers.iter().flat_map(|server| server.heads()).filter(|head| header(head, "cookie").is_none());
        assert_eq!(last.count(), 2, "the first calls of the two");
    }
}

#[tokio::test]
async fn cookies_belong_to_the_service_and_not_to_the_instance_that_set_them() {
    let login = Act::Answer(
        "HTTP/1.1 302 -\r\nlocation: /in\r\nset-cookie: SID=7; Path=/\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
    );
    let act = on(move |target| if target == "/login" { login.clone() } else { ok("") });
    let (a, b) = (Server::start(act.clone()).await, Server::start(act).await);
    let users = Server::start(ok("")).await;
    let http =
        services(&[("orders", &[a.instance("a"), b.instance("b")]), ("users", &[users.instance("u")])]);
    let user = http.with_cookies(Cookies::default());
    served_by(&user, "lb://orders/login").await;
    for url in ["lb://orders/x", "lb://orders/x", "lb://users/x"] {
        served_by(&user, url).await;
    }
    let with = |server: &Server| {
        let heads = server.heads();
        heads.iter().filter(|head| header(head, "cookie") == Some("SID=7")).count()
    };
    // The answer that redirected has set it for the request behind it.
    assert_eq!((with(&a) + with(&b), a.served() + b.served()), (3, 4));
    assert!(with(&a) > 0 && with(&b) > 0);
    assert_eq!((with(&users), users.served()), (0, 1));
    // What the caller says of cookies is all that is said.
    user.get("lb://users/x").header("cookie", "mine=1").send().await.unwrap();
    user.get("lb://orders/x").header("cookie", "mine=1").send().await.unwrap();
    let all = [&a, &b, &users].map(Server::heads).concat();
    assert_eq!(all.iter().filter(|head| header(head, "cookie") == Some("mine=1")).count(), 2);
    // A circle is none if each turn brings other cookies.
    let counts = by(|number| match number {
        1..5 => Act::Answer(format!(
            "HTTP/1.1 302 -\r\nlocation: /again\r\nset-cookie: n={number}\r\ncontent-length: 0\r\n\r\n"
        )),
        _ => ok(""),
    });
    let server = Server::start(counts).await;
    let http = over([server.instance("a")]);
    served_by(&http.with_cookies(Cookies::default()), "lb://orders/again").await;
    assert_eq!(server.served(), 5);
}

#[tokio::test]
async fn case_020_what_a_response_hook_sets_holds_no_line_break_and_nothing_forged() {
    let server = Server::start(ok("")).await;
    for (id, cookie) in [
        ("i-1", Some("sc-lb-instance-id=i-1; Path=/; HttpOnly; SameSite=Lax")),
        ("i-1; Domain=x", Some("sc-lb-instance-id=i-1Domain=x; Path=/; HttpOnly; SameSite=Lax")),
        ("i\r\nSet-Cookie: a=b", Some("sc-lb-instance-id=iSet-Cookie:a=b; Path=/; HttpOnly; SameSite=Lax")),
        (";,;", None),
    ] {
        let http = over([server.instance(id)]).with_response_hook(SetInstanceCookie::default());
        let response = http.get("lb://orders/x").send().await.unwrap();
        let lines: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
        assert_eq!(lines, cookie.into_iter().collect::<Vec<_>>(), "{id:?}");
    }
}
