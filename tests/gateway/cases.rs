use std::collections::HashSet;

use crate::common::{ask, front, get, get_with, one_route};
use crate::net::{Refusing, Server, ok};

#[tokio::test]
async fn case_049_the_target_arrives_byte_for_byte() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let targets = [
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
        "/key?a[]=b|c",
    ];
    for target in targets {
        assert_eq!(get(front.address, target).await.status, 200, "{target}");
    }
    let seen: Vec<_> = server.heads().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(seen, targets);
}

const STICKY: &str = "
evenkeel:
  configurations: request-based-sticky-session
  sticky-session.add-service-instance-cookie: true
  gateway.routes: [{id: r, uri: 'lb://orders'}]
";

/// The id in the cookie that an answer sets.
fn set(reply: &crate::common::Reply) -> Option<&str> {
    let cookie = reply.header("set-cookie")?;
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    cookie.strip_prefix("sc-lb-instance-id=")?.split(';').next()
}

#[tokio::test]
async fn case_019_a_browser_goes_to_another_instance_when_its_own_is_dead_and_stays_there() {
    let (dead, b, c) = (Refusing::new(), Server::start(ok("b")).await, Server::start(ok("c")).await);
    let front =
        front(STICKY, &[("orders", vec![dead.instance("a"), b.instance("b"), c.instance("c")])]).await;
    let (mut cookie, mut served) = ("a".to_owned(), HashSet::new());
    for _ in 0..10 {
        let reply =
            get_with(front.address, "/x", &format!("Cookie: theme=dark; sc-lb-instance-id={cookie}\r\n"))
                .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        if let Some(id) = set(&reply) {
            assert_eq!(id, reply.body);
            id.clone_into(&mut cookie);
        }
        served.insert(reply.body);
    }
    assert_eq!(served.len(), 1, "{served:?}");
    assert!(served.contains(&cookie));
    // The instance knows it too, and its other cookies.
    let heads = [b.heads(), c.heads()].concat();
    assert!(
        heads
            .iter()
            .all(|head| head.contains("theme=dark") && head.contains(&format!("sc-lb-instance-id={cookie}")))
    );
    // One who says so gets no cookie; one who was somewhere else does, and by TLS in front a secure one.
    let lines = format!("Cookie: sc-lb-instance-id={cookie}\r\n");
    assert_eq!(get_with(front.address, "/x", &lines).await.header("set-cookie"), None);
    let reply = get_with(front.address, "/x", "X-Forwarded-Proto: https\r\n").await;
    assert!(reply.header("set-cookie").unwrap().ends_with("; Secure"), "{reply:?}");
}

#[tokio::test]
async fn case_020_a_forged_cookie_leads_nowhere_but_to_the_instances() {
    let (i1, i2, i9) =
        (Server::start(ok("i-1")).await, Server::start(ok("i-2")).await, Server::start(ok("i-9")).await);
    let trap = Server::start(ok("trap")).await;
    let services =
        [("orders", vec![i1.instance("i-1"), i2.instance("i-2")]), ("admin", vec![i9.instance("i-9")])];
    let front = front(STICKY, &services).await;
    let long = "x".repeat(8 << 10);
    let values = [
        format!("http://{}", trap.address),
        trap.address.to_string(),
        "i-9".to_owned(),
        "i-1%00".to_owned(),
        "../../i-1".to_owned(),
        long,
        String::new(),
        "x%0d%0aSet-Cookie: a=b".to_owned(),
    ];
    for value in values {
        let mut served = HashSet::new();
        for _ in 0..20 {
            let reply =
                get_with(front.address, "/x", &format!("Cookie: sc-lb-instance-id={value}\r\n")).await;
            assert_eq!(reply.status, 200, "{value}");
            assert_eq!(set(&reply), Some(&*reply.body), "{value}");
            served.insert(reply.body);
        }
        assert_eq!(served, HashSet::from(["i-1".to_owned(), "i-2".to_owned()]), "{value}");
    }
    assert_eq!((trap.connections(), i9.connections()), (0, 0));
    // Of two the first counts.
    let request = "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCookie: sc-lb-instance-id=i-2; sc-lb-instance-id=i-1\r\n\r\n";
    for _ in 0..4 {
        assert_eq!(ask(front.address, request).await.body, "i-2");
    }
}
