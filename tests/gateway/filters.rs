use crate::common::{filtered, front, get, get_with};
use crate::net::{Server, header, ok};

/// The request line that arrives behind these filters.
async fn arrives(filters: &[&str], target: &str) -> String {
    let server = Server::start(ok("")).await;
    let front = filtered(filters, vec![server.instance("a")]).await;
    let reply = get(front.address, target).await;
    assert_eq!(reply.status, 200, "{filters:?} {target}: {reply:?}");
    let head = server.heads().pop().unwrap();
    head.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn filters_of_the_path_change_what_they_mean_and_nothing_else() {
    for (filters, target, wanted) in [
        (&["StripPrefix=2"][..], "/api/v1/orders/1?x=%20+", "/orders/1?x=%20+"),
        (&["StripPrefix=1"], "/api", "/"),
        (&["PrefixPath=/shop"], "/orders?", "/shop/orders?"),
        (&["RewritePath=/red/?(?<segment>.*), /$\\{segment}"], "/red/a%2Fb//c", "/a%2Fb//c"),
        (&["RewritePath=/v(\\d)/(.*), /$2/$1"], "/v2/x", "/x/2"),
        (&["SetPath=/fixed"], "/any/thing?q=1", "/fixed?q=1"),
        (&["AddRequestParameter=red, blue"], "/a?x=1", "/a?x=1&red=blue"),
        (&["RemoveRequestParameter=x"], "/a?x=1&y=%zz", "/a?y=%zz"),
        (&["StripPrefix=1", "PrefixPath=/p"], "/a/b", "/p/b"),
    ] {
        assert_eq!(arrives(filters, target).await, format!("GET {wanted} HTTP/1.1"), "{filters:?} {target}");
    }
}

#[tokio::test]
async fn variables_of_a_pattern_go_into_paths_and_headers() {
    let server = Server::start(ok("")).await;
    let yaml = "
evenkeel.gateway:
  default-filters: ['AddRequestHeader=X-Default, yes']
  routes:
    - id: r
      uri: lb://orders
      predicates: ['Path=/shop/{tenant}/{*rest}', 'Host={zone}.shop.test']
      filters: ['SetPath=/{tenant}/x{rest}', 'SetRequestHeader=X-Tenant, <{tenant}@{zone}>', 'AddResponseHeader=X-Zone, {zone}']
";
    let front = front(yaml, &[("orders", vec![server.instance("a")])]).await;
    let request = "GET /shop/a%2Fb/c//d?q HTTP/1.1\r\nHost: eu.shop.test\r\nX-Tenant: mine\r\nConnection: close\r\n\r\n";
    let reply = crate::common::ask(front.address, request).await;
    assert_eq!((reply.status, reply.header("x-zone")), (200, Some("eu")), "{reply:?}");
    let head = server.heads().pop().unwrap();
    assert!(head.starts_with("GET /a%2Fb/x/c//d?q HTTP/1.1\r\n"), "{head}");
    assert_eq!((header(&head, "x-tenant"), header(&head, "x-default")), (Some("<a/b@eu>"), Some("yes")));
    // A line break is no value of a header.
    let request = "GET /shop/a%0d%0ab/c HTTP/1.1\r\nHost: eu.shop.test\r\nConnection: close\r\n\r\n";
    assert_eq!(crate::common::ask(front.address, request).await.status, 400);
    assert_eq!(server.served(), 1);
}

#[tokio::test]
async fn filters_of_headers_and_status() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-drop: 1\r\nx-set: old\r\nx-add: old\r\n\r\nhi";
    let server = Server::start(crate::net::Act::Answer(answer.to_owned())).await;
    let filters = [
        "AddRequestHeader=X-Req-Add, new",
        "SetRequestHeader=X-Req-Set, new",
        "RemoveRequestHeader=X-Req-Drop",
        "AddResponseHeader=X-Add, new",
        "SetResponseHeader=X-Set, new",
        "RemoveResponseHeader=X-Drop",
        "SetStatus=ACCEPTED",
    ];
    let front = filtered(&filters, vec![server.instance("a")]).await;
    let lines = "X-Req-Add: old\r\nX-Req-Set: old\r\nX-Req-Drop: old\r\n";
    let reply = get_with(front.address, "/", lines).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, "hi"));
    assert_eq!((reply.header("x-drop"), reply.header("x-set")), (None, Some("new")));
    assert_eq!(reply.head.matches("x-add: ").count(), 2);
    let head = server.heads().pop().unwrap();
    assert_eq!((head.matches("x-req-add: ").count(), header(&head, "x-req-drop")), (2, None), "{head}");
    assert_eq!(header(&head, "x-req-set"), Some("new"));
}

#[tokio::test]
async fn the_host_is_that_of_the_instance_unless_a_filter_says_otherwise() {
    for (filters, wanted) in [
        (&[][..], None),
        (&["PreserveHostHeader"], Some("shop.test")),
        (&["SetRequestHostHeader=inner.test"], Some("inner.test")),
    ] {
        let server = Server::start(ok("")).await;
        let own = server.address.to_string();
        let front = filtered(filters, vec![server.instance("a")]).await;
        assert_eq!(get(front.address, "/").await.status, 200);
        let heads = server.heads();
        assert_eq!(header(&heads[0], "host"), Some(wanted.unwrap_or(&own)), "{filters:?}");
        assert_eq!(heads[0].to_ascii_lowercase().matches("\r\nhost: ").count(), 1);
    }
}

#[tokio::test]
async fn a_redirection_is_answered_without_an_instance() {
    let front = filtered(&["RedirectTo=308, https://new.test/x, true"], vec![]).await;
    let reply = get(front.address, "/a?q=1").await;
    assert_eq!((reply.status, reply.header("location")), (308, Some("https://new.test/x?q=1")));
    let front = filtered(&["RedirectTo=302, https://new.test/x"], vec![]).await;
    assert_eq!(get(front.address, "/a?q=1").await.header("location"), Some("https://new.test/x"));
}

#[tokio::test]
async fn routes_lead_to_services_by_path_weight_and_address_and_are_replaced_whole() {
    let (a, b, c) =
        (Server::start(ok("a")).await, Server::start(ok("b")).await, Server::start(ok("c")).await);
    let yaml = format!(
        "
spring.cloud.gateway.routes:
  - {{id: heavy, uri: 'lb://a', predicates: ['Path=/w', 'Weight=g, 8'], filters: ['AddResponseHeader=X-Route, heavy']}}
  - {{id: light, uri: 'lb://b', predicates: ['Path=/w', 'Weight=g, 2']}}
  - {{id: address, uri: 'http://{}', predicates: ['Path=/c/**']}}
",
        c.address
    );
    let services = [("a", vec![a.instance("a")]), ("b", vec![b.instance("b")])];
    let front = front(&yaml, &services).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("http://{}{path}", front.address);
    let total = 300;
    for _ in 0..total {
        let reply = http.get(url("/w")).send().await.unwrap();
        let heavy = reply.headers().contains_key("x-route");
        assert_eq!(reply.text().await.unwrap(), if heavy { "a" } else { "b" });
    }
    // Five standard deviations of a binomial of 300 at 0.8 are 35.
    assert!((205..=275).contains(&a.served()), "{} and {}", a.served(), b.served());
    assert_eq!(a.served() + b.served(), total);
    assert_eq!(http.get(url("/c/x")).send().await.unwrap().text().await.unwrap(), "c");
    assert_eq!(http.get(url("/d")).send().await.unwrap().status(), 404);

    let bad =
        evenkeel::config::Properties::default().set("evenkeel.gateway.routes[0].uri", "nowhere").unwrap();
    assert!(front.gateway.reload(&bad).unwrap_err().to_string().contains("uri"));
    assert_eq!(
        http.get(url("/c/x")).send().await.unwrap().text().await.unwrap(),
        "c",
        "the last good ones stay"
    );
    let good =
        evenkeel::config::Properties::default().set("evenkeel.gateway.routes[0].uri", "lb://b").unwrap();
    front.gateway.reload(&good).unwrap();
    assert_eq!(http.get(url("/c/x")).send().await.unwrap().text().await.unwrap(), "b");
}
