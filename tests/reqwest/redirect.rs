//! Redirects: where they lead, what goes along, and where they end.

use super::net::*;
use evenkeel::client::reqwest::{RedirectAction, RedirectPolicy, RedirectedFrom, Via};
use evenkeel::config::Properties;
use reqwest::header::HeaderMap;
use reqwest::{Body, Method, Response};
use std::time::Duration;

fn via(response: &Response) -> String {
    response.extensions().get::<Via>().unwrap().instance().id().to_owned()
}

fn from(response: &Response) -> Vec<String> {
    let from = response.extensions().get::<RedirectedFrom>();
    from.map(|from| from.urls().iter().map(ToString::to_string).collect()).unwrap_or_default()
}

/// First the redirect, then a good answer.
fn once(status: u16, location: impl std::fmt::Display) -> Act {
    let redirect = redirect(status, location);
    by(move |number| if number == 1 { redirect.clone() } else { ok("there") })
}

#[tokio::test]
async fn the_method_and_the_body_change_as_the_status_says() {
    for (status, method, then, body) in [
        (301, "POST", "GET", ""),
        (301, "PUT", "PUT", "body"),
        (302, "POST", "GET", ""),
        (302, "DELETE", "DELETE", "body"),
        (303, "POST", "GET", ""),
        (303, "PUT", "GET", ""),
        (303, "HEAD", "HEAD", ""),
        (307, "POST", "POST", "body"),
        (307, "GET", "GET", "body"),
        (308, "PATCH", "PATCH", "body"),
    ] {
        let server = Server::start(once(status, "/there")).await;
        let http = over([server.instance("a")]);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = http.request(method.clone(), "lb://orders/x").header("content-type", "text/plain");
        let request = request.header("content-encoding", "identity").header("x-own", "1").body("body");
        assert_eq!(request.send().await.unwrap().status(), 200);
        assert_eq!(server.lines(), [format!("{method} /x"), format!("{then} /there")], "{status}");
        assert_eq!(server.bodies()[1], body, "{status} {method}");
        let head = &server.heads()[1];
        for name in ["content-type", "content-encoding"] {
            assert_eq!(header(head, name).is_some(), !body.is_empty(), "{status} {method} {name}");
        }
        assert_eq!(header(head, "x-own"), Some("1"));
        assert_eq!(http.balancers().in_flight(), 0);
    }
    for status in [300, 304, 305, 306] {
        let server = Server::start(redirect(status, "/there")).await;
        let response = over([server.instance("a")]).get("lb://orders/x").send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.served()), (status, 1));
    }
}

fn stream() -> Body {
    Body::wrap_stream(futures_util::stream::iter(["bo", "dy"].map(Ok::<_, std::io::Error>)))
}

#[tokio::test]
async fn a_redirect_that_keeps_a_body_that_is_gone_is_given_to_the_caller() {
    let server = Server::start(once(307, "/there")).await;
    let http = over([server.instance("a")]);
    let response = http.put("lb://orders/x").body(stream()).send().await.unwrap();
    assert_eq!((response.status().as_u16(), server.bodies().join(" ")), (307, "body".to_owned()));
    assert!(from(&response).is_empty());

    for (status, bodies) in [(307, "body body"), (303, "body ")] {
        let server = Server::start(once(status, "/there")).await;
        let http = over([server.instance("a")]);
        let request = http.put("lb://orders/x");
        // Where the body stays behind, a stream does as well as one that is made anew.
        let request = if status == 303 { request.body(stream()) } else { request.body_with(stream) };
        assert_eq!(request.send().await.unwrap().status(), 200);
        assert_eq!(server.bodies().join(" "), bodies);
    }
}

#[tokio::test]
async fn a_redirect_to_a_service_is_balanced_however_it_is_written() {
    for location in ["lb://users/u?x=%20", "http://users/u?x=%20", "//users/u?x=%20"] {
        let front = Server::start(redirect(302, location)).await;
        let (one, two) = (Server::start(ok("")).await, Server::start(ok("")).await);
        let dead = Refusing::new();
        let users = [one.instance("u1"), dead.instance("dead"), two.instance("u2")];
        let http = services(&[("orders", &[front.instance("a")]), ("users", &users)]);
        let mut attempts = 0;
        for _ in 0..8 {
            let response = http.post("lb://orders/x").body("once").send().await.unwrap();
            assert!(via(&response).starts_with('u'));
            assert_eq!(from(&response), ["lb://orders/x"]);
            attempts += response.extensions().get::<Via>().unwrap().attempts();
            let url = response.url().as_str().to_owned();
            let own = [&one, &two].map(|server| format!("http://{}/u?x=%20", server.address));
            assert!(own.contains(&url), "the URL is that at the instance: {url}");
        }
        // Each place is a call with attempts of its own: the dead one was tried once, and is skipped from then on.
        assert_eq!((front.served(), one.served() + two.served(), attempts), (8, 8, 9), "{location}");
        assert!(one.served().abs_diff(two.served()) <= 2, "{} {}", one.served(), two.served());
        assert!(one.lines().iter().chain(&two.lines()).all(|line| line == "GET /u?x=%20"));
        assert_eq!(http.balancers().in_flight(), 0);
    }
}

const SECRETS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "www-authenticate"];

fn with_secrets() -> HeaderMap {
    let names = SECRETS.iter().chain(&["x-own"]);
    names.map(|name| (name.parse().unwrap(), "secret".parse().unwrap())).collect()
}

fn secrets(head: &str) -> usize {
    assert_eq!(header(head, "x-own"), Some("secret"));
    SECRETS.iter().filter(|name| header(head, name).is_some()).count()
}

#[tokio::test]
async fn credentials_go_along_to_the_same_service_and_to_nobody_else() {
    let kept = SECRETS.len();
    // By its name, relative to it, at the address of the instance itself, and of another one.
    let other = Server::start(ok("")).await;
    for place in ["lb://orders/y", "http://orders/y", "http://ORDERS/y", "/y", "y", "?y", "self", "other"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let location = match place {
            "self" => format!("http://{address}/y"),
            "other" => format!("http://{}/y", other.address),
            place => place.to_owned(),
        };
        let server = Server::on(listener, once(302, location));
        let http = services(&[("orders", &[server.instance("a")])]);
        let registry = [server.instance("a"), other.instance("b")];
        let http = if place == "other" { services(&[("orders", &registry)]) } else { http };
        // With two of them one call in two starts at the other one.
        let mut response = http.get("lb://orders/x").headers(with_secrets()).send().await.unwrap();
        if server.served() == 0 {
            response = http.get("lb://orders/x").headers(with_secrets()).send().await.unwrap();
        }
        assert_eq!(response.status(), 200, "{place}");
        assert_eq!(via(&response), if place == "other" { "b" } else { "a" });
        let last = if place == "other" { other.heads() } else { server.heads() };
        assert_eq!(secrets(last.last().unwrap()), kept, "{place}");
    }
    // To another service, to a host, and from there to another port or back.
    let end = Server::start(ok("")).await;
    let hop = Server::start(redirect(302, format!("http://{}/z", end.address))).await;
    let plain = format!("http://{}/y", end.address);
    // A URL takes a backslash for a slash, if its scheme is http.
    let backslash = format!("/\\{}/y", end.address);
    let two_hops = format!("http://{}/y", hop.address);
    for place in ["lb://users/y", "http://users/y", &plain, &backslash, &two_hops] {
        let server = Server::start(redirect(302, place)).await;
        let http = services(&[("orders", &[server.instance("a")]), ("users", &[end.instance("u")])]);
        http.get("http://orders/x").headers(with_secrets()).send().await.unwrap();
        assert_eq!(secrets(server.heads().last().unwrap()), kept);
        assert_eq!(secrets(end.heads().last().unwrap()), 0, "{place}");
    }
    assert_eq!(secrets(hop.heads().last().unwrap()), 0);
    let http = services(&[("users", &[end.instance("u")])]);
    let back = Server::start(redirect(302, "lb://users/y")).await;
    for (server, expected) in [(&back, 0), (&Server::start(once(302, "/z")).await, kept)] {
        let url = format!("http://{}/x", server.address);
        http.get(url).headers(with_secrets()).send().await.unwrap();
        let last = if expected == 0 { end.heads() } else { server.heads() };
        assert_eq!(secrets(last.last().unwrap()), expected);
    }
}

#[tokio::test]
async fn what_was_dropped_does_not_come_back_behind_the_next_redirect() {
    // orders -> stranger -> stranger: the second request there is to the same host as the one before.
    let stranger = Server::start(once(302, "/z")).await;
    let server = Server::start(redirect(302, format!("http://{}/y", stranger.address))).await;
    let http = over([server.instance("a")]);
    http.get("lb://orders/x").headers(with_secrets()).send().await.unwrap();
    assert_eq!(stranger.heads().iter().map(|head| secrets(head)).collect::<Vec<_>>(), [0, 0]);
}

#[tokio::test]
async fn a_redirect_to_the_address_of_an_instance_goes_there_under_a_lease() {
    let leader = Server::start(ok("leader")).await;
    let location = format!("http://{}/led?by=%41", leader.address);
    let (one, two) =
        (Server::start(redirect(307, &location)).await, Server::start(redirect(307, &location)).await);
    let http = over([one.instance("a"), leader.instance("b"), two.instance("c")]);
    let mut redirected = 0;
    for _ in 0..9 {
        let response = http.post("lb://orders/x").body("body").send().await.unwrap();
        assert_eq!(via(&response), "b");
        assert_eq!(http.balancers().in_flight(), 1);
        redirected += from(&response).len();
        assert_eq!(response.text().await.unwrap(), "leader");
    }
    assert_eq!((redirected, one.served(), two.served(), leader.served()), (6, 3, 3, 9));
    assert!(leader.bodies().iter().all(|body| body == "body"));
    assert_eq!(leader.lines().iter().filter(|line| *line == "POST /led?by=%41").count(), 6);
    // One that cannot be reached is left for another.
    let dead = Refusing::new();
    let gone = format!("http://{}/there/x", dead.instance("d").authority());
    let first = Server::start(once(302, gone)).await;
    let http = over([first.instance("a"), dead.instance("d")]);
    for _ in 0..2 {
        assert_eq!(via(&http.get("lb://orders/x").send().await.unwrap()), "a");
    }
    assert!(first.lines().contains(&"GET /there/x".to_owned()), "{:?}", first.lines());
    // What is relative to it is relative to the service.
    let deep =
        Server::start(on(|target| if target == "/deep/x" { redirect(302, "next") } else { ok("") })).await;
    let start = Server::start(redirect(302, format!("http://{}/deep/x", deep.address))).await;
    let http = services(&[("orders", &[start.instance("a")]), ("users", &[deep.instance("u")])]);
    let pair = services(&[("orders", &[start.instance("a"), deep.instance("b")])]);
    http.get("lb://orders/x").send().await.unwrap();
    assert_eq!(
        deep.lines(),
        ["GET /deep/x", "GET /deep/next"],
        "a host like any other, since it is none of its instances"
    );
    for _ in 0..2 {
        // It may be the turn of the one that redirects: to where it was before.
        let answer = pair.get("lb://orders/deep/y").send().await;
        assert!(answer.is_ok() || answer.is_err_and(|error| error.is_redirect()));
    }
    let next = [&start, &deep].map(Server::lines).concat();
    assert!(next.iter().filter(|line| *line == "GET /deep/next").count() >= 2, "{next:?}");
}

#[tokio::test]
async fn circles_and_too_many_are_errors_that_name_the_way() {
    let circle = Server::start(redirect(302, "/again?x=1#top")).await;
    let http = over([circle.instance("a")]);
    let error = http.get("lb://me:secret@orders/x").send().await.unwrap_err();
    assert!(error.is_redirect() && !error.is_timeout(), "{error}");
    assert_eq!(
        error.to_string(),
        "it was redirected in a circle (redirected from lb://orders/x, then lb://orders/again?x=1)"
    );
    assert_eq!((circle.served(), error.redirected_from().len(), http.balancers().in_flight()), (2, 2, 0));

    // One that names itself, or a leader that does not know that it is one.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}/own", listener.local_addr().unwrap());
    let server = Server::on(listener, redirect(307, &own));
    let http = over([server.instance("a")]);
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    let text = format!("it was redirected in a circle (redirected from lb://orders/x, then {own})");
    assert_eq!((error.to_string(), server.served(), http.balancers().in_flight()), (text, 2, 0));

    let further = Server::start(by(|number| redirect(302, format!("/{number}")))).await;
    let http = over([further.instance("a")]);
    let error = http.get("lb://orders/x").send().await.unwrap_err();
    assert!(error.is_redirect() && error.to_string().contains("more than 10 times"), "{error}");
    assert_eq!((further.served(), error.redirected_from().len()), (11, 11));
    let error =
        http.with_redirects(RedirectPolicy::limited(2)).get("lb://orders/x").send().await.unwrap_err();
    assert!(error.to_string().contains("more than 2 times"), "{error}");
    assert_eq!(further.served(), 11 + 3);

    let none = http.with_redirects(RedirectPolicy::none());
    let response = none.get("lb://orders/x").send().await.unwrap();
    assert_eq!((response.status().as_u16(), via(&response)), (302, "a".to_owned()));
    assert_eq!((further.served(), from(&response).len()), (11 + 3 + 1, 0));
}

#[tokio::test]
async fn a_closure_decides_redirect_by_redirect() {
    let users = Server::start(ok("user")).await;
    let plain = format!("http://{}/plain", users.address);
    for (location, end) in [("lb://users/u", 200), (&*plain, 302), ("/relative", 500)] {
        let server = Server::start(once(302, location)).await;
        let http = services(&[("orders", &[server.instance("a")]), ("users", &[users.instance("u")])]);
        let http = http.with_redirects(RedirectPolicy::custom(|redirect| {
            assert_eq!((redirect.status().as_u16(), redirect.previous().len()), (302, 1));
            assert_eq!(redirect.previous()[0].as_str(), "lb://orders/x");
            match redirect.service().map(ToString::to_string).as_deref() {
                Some("users") => RedirectAction::Follow,
                Some(_) => RedirectAction::refuse(format!("not to {}", redirect.url())),
                None => RedirectAction::Stop,
            }
        }));
        match http.get("lb://orders/x").send().await {
            Ok(response) => assert_eq!(response.status().as_u16(), end),
            Err(error) => {
                let text =
                    "a redirect was refused (not to lb://orders/relative) (redirected from lb://orders/x)";
                assert_eq!((end, error.to_string()), (500, text.to_owned()));
            }
        }
    }
}

#[tokio::test]
async fn the_place_before_is_told_as_reqwest_tells_it() {
    let server = Server::start(by(|number| if number % 2 == 1 { redirect(302, "/y") } else { ok("") })).await;
    let plain = Server::start(once(302, "/y")).await;
    let http = services(&[("orders", &[server.instance("a")])]);
    for (http, expected) in [(http.clone(), Some("http://orders/x?q=1")), (http.with_referer(false), None)] {
        http.get("lb://me:secret@orders/x?q=1#top").send().await.unwrap();
        assert_eq!(header(server.heads().last().unwrap(), "referer"), expected);
    }
    http.get(format!("http://{}/x", plain.address)).send().await.unwrap();
    let expected = format!("http://{}/x", plain.address);
    assert_eq!(header(&plain.heads()[1], "referer"), Some(&*expected));
}

#[tokio::test]
async fn what_is_no_place_is_given_to_the_caller_or_refused_by_name() {
    for location in ["http://", "lb://", "http://bad%20id/", "lb://bad%20id/x"] {
        let server = Server::start(redirect(302, location)).await;
        let response = over([server.instance("a")]).get("lb://orders/x").send().await.unwrap();
        assert_eq!((response.status().as_u16(), server.served()), (302, 1), "{location}");
    }
    let missing = Act::Answer("HTTP/1.1 302 -\r\ncontent-length: 0\r\n\r\n".to_owned());
    let server = Server::start(missing).await;
    assert_eq!(over([server.instance("a")]).get("lb://orders/x").send().await.unwrap().status(), 302);
    for location in ["mailto:me@orders.test", "ftp://orders.test/x", "file:///etc/passwd", "data:,x"] {
        let server = Server::start(redirect(302, location)).await;
        let error = over([server.instance("a")]).get("lb://orders/x").send().await.unwrap_err();
        assert!(
            error.is_redirect() && error.to_string().contains("neither http nor https nor lb"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_time_of_a_call_holds_for_all_its_redirects_together() {
    let silent = Server::start(on(|target| if target == "/warm" { ok("") } else { Act::Hang })).await;
    let further = on(|target| match target {
        "/warm" => ok(""),
        "/x" => redirect(302, "/y"),
        "/y" => redirect(302, "z"),
        _ => redirect(302, "lb://users/x"),
    });
    let server = Server::start(further).await;
    let http = services(&[("orders", &[server.instance("a")]), ("users", &[silent.instance("u")])]);
    // Making a client takes time that is not to be measured here.
    for url in ["lb://orders/warm", "lb://users/warm"] {
        http.get(url).send().await.unwrap();
    }
    let (limit, start) = (Duration::from_secs(3), std::time::Instant::now());
    let error = http.get("lb://orders/x").timeout(limit).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!((error.redirected_from().len(), server.served(), silent.served()), (3, 1 + 3, 1 + 1));
    assert!(start.elapsed() >= limit);
    assert_eq!(http.balancers().in_flight(), 0);
}

#[tokio::test]
async fn a_call_that_was_redirected_to_a_dead_server_was_sent_once() {
    for (status, method) in [(302, Method::POST), (307, Method::POST), (302, Method::GET)] {
        let dead = Refusing::new();
        let there = dead.instance("x").authority();
        let act = redirect(status, format!("http://{there}/there"));
        let (first, second) = (Server::start(act.clone()).await, Server::start(act).await);
        let http = over([first.instance("a"), second.instance("b")]);
        // Also over a connection that is there already.
        for calls in 1..=4 {
            let error = http.request(method.clone(), "lb://orders/x").body("once").send().await.unwrap_err();
            assert!(error.reqwest_error().unwrap().is_connect());
            assert!(error.to_string().ends_with("(redirected from lb://orders/x)"), "{error}");
            assert_eq!(first.served() + second.served(), calls, "{status} {method}");
        }
        let balancer = http.balancers().get("orders").unwrap();
        let list = balancer.snapshot().unwrap();
        assert!(list.instances().all(|state| !state.is_skipped()), "both answered");
    }
}

#[tokio::test]
async fn the_policy_of_the_client_that_make_gives_does_not_count() {
    let server =
        Server::start(by(|number| redirect(302, if number % 2 == 1 { "lb://orders/y" } else { "/z" }))).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    let own = || reqwest::Client::builder().redirect(reqwest::redirect::Policy::limited(1));
    let http = balancers.reqwest(move |_| own()).unwrap().with_redirects(RedirectPolicy::limited(1));
    assert!(http.get("lb://orders/x").send().await.unwrap_err().is_redirect());
    assert_eq!(server.lines(), ["GET /x", "GET /y"]);
}

/// Writes down the calls and their ends.
#[derive(Debug, Default)]
struct Heard(std::sync::Mutex<Vec<String>>);

impl evenkeel::observe::Lifecycle for Heard {
    fn on_attempt(&self, end: &evenkeel::observe::AttemptEnd<'_>) {
        self.0.lock().unwrap().push(format!("{} {} {}", end.service, end.attempt, end.outcome));
    }
    fn on_complete(&self, call: &evenkeel::observe::Completion<'_>) {
        let template = call.call.template.as_deref().unwrap_or("none");
        self.0.lock().unwrap().push(format!("{} {} {template}", call.status, call.attempts));
    }
}

#[tokio::test]
async fn each_place_is_a_call_with_attempts_of_its_own() {
    let (dead, users) = (Refusing::new(), Server::start(ok("")).await);
    let orders = Server::start(redirect(303, "lb://users/u")).await;
    let registry = evenkeel::discovery::SimpleDiscovery::new()
        .with_instances("orders", [orders.instance("a")])
        .and_then(|registry| registry.with_instances("users", [dead.instance("d"), users.instance("u")]))
        .unwrap();
    let heard = std::sync::Arc::new(Heard::default());
    let balancers = evenkeel::LoadBalancers::builder(registry).lifecycle_arc(heard.clone()).build().unwrap();
    let http = client(&balancers);
    for _ in 0..2 {
        let request = http.post("lb://orders/x").template("/x").body("once");
        request.send().await.unwrap().bytes().await.unwrap();
    }
    let heard = heard.0.lock().unwrap().clone();
    let count = |text: &str| heard.iter().filter(|line| *line == text).count();
    for (text, times) in [
        ("orders 1 status 303", 2),
        ("success 1 /x", 2),
        ("users 1 connect failed", 1),
        ("users 1 status 200", 1),
        ("users 2 status 200", 1),
        ("success 1 none", 1),
        ("success 2 none", 1),
    ] {
        assert_eq!(count(text), times, "{text}: {heard:?}");
    }
    assert_eq!(heard.len(), 9);
}
