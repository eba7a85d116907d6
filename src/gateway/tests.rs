use http::{HeaderMap, Method};

use super::predicate::Asked;
use super::{GatewaySettings, RouteDefinition, Routes};
use crate::config::{ConfigError, Format, Properties};
use crate::random::Random;

/// A request by its parts: `GET shop.test/path?query`, and headers.
struct Wanted {
    method: Method,
    host: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
}

fn wanted(text: &str, headers: &[(&'static str, &str)]) -> Wanted {
    let (method, target) = text.split_once(' ').unwrap();
    let (host, rest) = target.split_at(target.find('/').unwrap());
    let (path, query) =
        rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query.to_owned())));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    Wanted {
        method: method.parse().unwrap(),
        host: host.to_owned(),
        path: path.to_owned(),
        query,
        headers: map,
    }
}

impl Wanted {
    fn asked(&self) -> Asked<'_> {
        Asked {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
            host: &self.host,
            peer: Some([192, 168, 1, 7].into()),
        }
    }
}

fn found(routes: &Routes, text: &str, headers: &[(&'static str, &str)]) -> String {
    let wanted = wanted(text, headers);
    let route = routes.find(&wanted.asked(), &Random::new(Some(1)));
    route.map_or_else(|| "-".to_owned(), |route| route.id.to_string())
}

fn parse(yaml: &str) -> Result<Routes, ConfigError> {
    Routes::from_properties(&Properties::parse(yaml, Format::Yaml, "application.yml")?)
}

#[test]
fn every_predicate_decides() {
    let route = |predicate: &str| {
        Routes::new([RouteDefinition::new("r", "lb://a").with_predicate(predicate)]).unwrap()
    };
    for (predicate, request, headers, holds) in [
        ("Path=/api/{id},/x/**", "GET h/api/1", &[][..], true),
        ("Path=/api/{id},/x/**", "GET h/x", &[], true),
        ("Path=/api/{id},/x/**", "GET h/api/1/", &[], true),
        ("Path=/api/{id}, false", "GET h/api/1/", &[], false),
        ("Path=/api/{id},/x/**", "GET h/y", &[], false),
        ("Method=GET,post", "POST h/", &[], true),
        ("Method=GET,POST", "PUT h/", &[], false),
        ("Header=X-Request-Id, \\d+", "GET h/", &[("x-request-id", "12")], true),
        ("Header=X-Request-Id, \\d+", "GET h/", &[("x-request-id", "x"), ("x-request-id", "7")], true),
        ("Header=X-Request-Id, \\d+", "GET h/", &[("x-request-id", "12a")], false),
        ("Header=X-Request-Id, \\d+", "GET h/", &[], false),
        ("Header=X-Any", "GET h/", &[("x-any", "")], true),
        ("Host=**.shop.test,{sub}.old.test", "GET a.b.shop.test:80/", &[], true),
        ("Host=**.shop.test,{sub}.old.test", "GET x.old.test/", &[], true),
        ("Host=**.shop.test", "GET shop.example/", &[], false),
        ("Query=green", "GET h/?a=1&green", &[], true),
        ("Query=green", "GET h/?greener=1", &[], false),
        ("Query=red, gree.", "GET h/?red=gree%6e", &[], true),
        ("Query=red, gree.", "GET h/?red=greens", &[], false),
        ("Cookie=chocolate, ch.p", "GET h/", &[("cookie", "a=b; chocolate=chip")], true),
        ("Cookie=chocolate, ch.p", "GET h/", &[("cookie", "chocolate=chips")], false),
        ("RemoteAddr=192.168.1.1/24,10.0.0.1", "GET h/", &[], true),
        ("RemoteAddr=10.0.0.0/8", "GET h/", &[], false),
    ] {
        let wanted = if holds { "r" } else { "-" };
        assert_eq!(found(&route(predicate), request, headers), wanted, "{predicate} {request} {headers:?}");
    }
}

#[test]
fn the_lowest_order_wins_and_then_the_first() {
    let any =
        |id: &str, order| RouteDefinition::new(id, "lb://a").with_order(order).with_predicate("Path=/a/**");
    let routes = Routes::new([
        any("late", 5),
        any("first", 0),
        any("second", 0),
        any("before", -1).with_predicate("Method=POST"),
    ])
    .unwrap();
    assert_eq!(routes.ids().collect::<Vec<_>>(), ["before", "first", "second", "late"]);
    assert_eq!(found(&routes, "GET h/a/1", &[]), "first");
    assert_eq!(found(&routes, "POST h/a/1", &[]), "before");
    assert_eq!(found(&routes, "GET h/b", &[]), "-");
}

#[test]
fn groups_share_their_requests_by_weight() {
    let share = |id: &str, weight: u32| {
        RouteDefinition::new(id, "lb://a")
            .with_predicate("Path=/a")
            .with_predicate(format!("Weight=g, {weight}"))
    };
    let routes = Routes::new([
        share("w8", 8),
        share("w2", 2),
        share("w0", 0),
        RouteDefinition::new("other", "lb://a").with_predicate("Path=/b").with_predicate("Weight=g, 90"),
        RouteDefinition::new("none", "lb://a").with_predicate("Path=/c").with_predicate("Weight=z, 0"),
    ])
    .unwrap();
    let (random, request) = (Random::new(Some(7)), wanted("GET h/a", &[]));
    let draws = 100_000;
    let mut counts = std::collections::HashMap::<String, u32>::new();
    for _ in 0..draws {
        let route = routes.find(&request.asked(), &random).unwrap();
        *counts.entry(route.id.to_string()).or_default() += 1;
    }
    // Five standard deviations of a binomial of 100 000 at 0.8 are 632.
    let w8 = i64::from(counts["w8"]);
    assert!((w8 - 80_000).abs() < 632, "{counts:?}");
    assert_eq!((counts.len(), counts["w8"] + counts["w2"]), (2, draws));
    // Nobody loses a request to a route that would not take it.
    assert_eq!(
        (found(&routes, "GET h/b", &[]), found(&routes, "GET h/c", &[])),
        ("other".into(), "-".into())
    );
}

#[test]
fn both_notations_and_all_prefixes_say_the_same() {
    let short = "
      - id: orders
        uri: lb://orders
        predicates:
          - Path=/api/orders/{id},/x/**
          - Method=GET,POST
        filters: [StripPrefix=1, 'RewritePath=/red/(?<segment>.*), /$\\{segment}']
        metadata: {response-timeout: 200, note: mine}
    ";
    let long = "
      - id: orders
        uri: lb://orders
        order: 0
        predicates:
          - {name: Path, args: {patterns: ['/api/orders/{id}', '/x/**']}}
          - name: Method
            args: {methods: 'GET,POST'}
        filters:
          - {name: StripPrefix, args: {parts: 1}}
          - {name: RewritePath, args: {regexp: '/red/(?<segment>.*)', replacement: '/$\\{segment}'}}
        metadata: {responseTimeout: 200}
    ";
    let mut seen = Vec::new();
    for prefix in [
        "evenkeel.gateway",
        "spring.cloud.gateway.server.webflux",
        "spring.cloud.gateway",
        "Spring.Cloud.GATEWAY",
    ] {
        for text in [short, long] {
            let routes = parse(&format!("{prefix}:\n    routes:{text}")).unwrap();
            let shown = format!("{routes:?}");
            assert!(shown.contains("/api/orders/{id}") && shown.contains("200ms"), "{shown}");
            seen.push(shown);
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:#?}");
}

#[test]
fn layers_placeholders_and_variables_hold_for_routes() {
    let yaml = "
base: /api
spring.cloud.gateway:
  default-filters: ['AddRequestHeader=X-From, gateway']
  routes:
    - {id: weak, uri: 'lb://weak'}
    - {id: weaker, uri: 'lb://weaker'}
evenkeel.gateway.routes:
  - id: strong
    uri: lb://${target:orders}
    predicates: ['Path=${base}/**']
";
    let properties = Properties::parse(yaml, Format::Yaml, "application.yml").unwrap();
    let of = |properties: &Properties| {
        let routes = Routes::from_properties(properties).unwrap();
        routes.ids().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of(&properties), ["strong"]);
    assert!(properties.warnings().is_empty(), "{:?}", properties.warnings());
    let routes = Routes::from_properties(&properties).unwrap();
    let shown = format!("{routes:?}");
    assert!(shown.contains("/api/**") && shown.contains("x-from"), "{shown}");
    assert_eq!(found(&routes, "GET h/api/1", &[]), "strong");
    let variables = [
        ("EVENKEEL_GATEWAY_ROUTES_0_ID", "variable"),
        ("EVENKEEL_GATEWAY_ROUTES_0_URI", "lb://a"),
        ("EVENKEEL_GATEWAY_ROUTES_0_PREDICATES_0", "Path=/v/**"),
        ("EVENKEEL_GATEWAY_ROUTES_0_METADATA_RESPONSE_TIMEOUT", "3s"),
    ];
    let properties = properties.with_environment(variables).unwrap();
    assert_eq!(of(&properties), ["variable"]);
    assert!(format!("{:?}", Routes::from_properties(&properties).unwrap()).contains("3s"));
    let code = properties.clone().set("evenkeel.gateway.routes[0].id", "code").unwrap();
    let code = code.set("gateway.routes[0].uri", "lb://c").unwrap();
    assert_eq!(of(&code), ["code"]);
    assert_ne!(code, properties, "a change of routes is one");
}

#[test]
fn what_is_wrong_names_route_key_value_and_what_is_allowed() {
    for (route, wanted) in [
        (
            "{id: r, uri: 'ftp://x'}",
            &["route \"r\", uri: ftp is no scheme", "uri = \"ftp://x\"", "lb://service"][..],
        ),
        ("{id: r}", &["route \"r\" has no uri"]),
        (
            "{id: r, uri: 'lb://a', predicates: [Paht=/x]}",
            &["route \"r\", Paht: unknown predicate", "predicates[0]", "Path, Method"],
        ),
        (
            "{id: r, uri: 'lb://a', filters: [StripPrefix=x]}",
            &["StripPrefix: no number", "filters[0] = \"x\""],
        ),
        (
            "{id: r, uri: 'lb://a', filters: [CircuitBreaker=x]}",
            &["CircuitBreaker: unknown filter", "StripPrefix"],
        ),
        ("{id: r, uri: 'lb://a', predicates: ['Header=X, [']}", &["no regular expression", "= \"[\""]),
        (
            "{id: r, uri: 'lb://a', predicates: ['Header=X, (?=a)']}",
            &["no regular expression", "look-around"],
        ),
        (
            "{id: r, uri: 'lb://a', predicates: [{name: Path, args: {pattrn: /x}}]}",
            &["unknown argument", "= \"pattrn\"", "patterns"],
        ),
        ("{id: r, uri: 'lb://a', predicates: ['Header=X, a, b']}", &["3 arguments", "long notation"]),
        ("{id: r, uri: 'lb://a', filters: ['SetPath=/{x}']}", &["has a variable x", "Path or Host"]),
        ("{id: r, uri: 'lb://a', filters: ['RewritePath=/a, /$\\{b}']}", &["no group b"]),
        (
            "{id: r, uri: 'lb://a', metadata: {response-timeout: soon}}",
            &["route \"r\": no time-out", "= \"soon\""],
        ),
        ("{id: r, uri: 'lb://a', order: x}", &["order = \"x\"", "a whole number"]),
        ("{id: r, uri: 'lb://a', predicate: [Path=/x]}", &["predicate is nothing", "predicates"]),
        ("{id: r, uri: 'lb://${gone}'}", &["nothing is known for the placeholder ${gone}"]),
    ] {
        // A route that is right does not help.
        let yaml = format!("evenkeel.gateway.routes:\n  - {{id: fine, uri: 'lb://a'}}\n  - {route}\n");
        let error = parse(&yaml).unwrap_err().to_string();
        for part in wanted.iter().chain(&["application.yml:3", "evenkeel.gateway.routes[1]"]) {
            assert!(error.contains(part), "{route}: {part}: {error}");
        }
    }
    let twice = "evenkeel.gateway.routes: [{id: r, uri: 'lb://a'}, {id: r, uri: 'lb://b'}]";
    assert!(parse(twice).unwrap_err().to_string().contains("that of another one"));
    let secret = "evenkeel.gateway.routes: [{id: r, uri: 'http://me:secret@a.test'}]";
    assert!(!parse(secret).unwrap_err().to_string().contains("secret"));
    let all = "evenkeel.gateway.routes: [{id: a, uri: x}, {id: b, uri: y}]";
    assert_eq!(parse(all).unwrap_err().problems().len(), 2, "one error tells all");
}

#[test]
fn what_is_read_over_is_told() {
    let yaml = "
spring.cloud.gateway:
  discovery.locator.enabled: true
  server.webflux.loadbalancer.use404: true
  routes:
    - {id: off, uri: 'lb://a', enabled: false}
    - {id: on, uri: 'http://a.test/base'}
evenkeel.gateway.default-filter: [StripPrefix=1]
";
    let properties = Properties::parse(yaml, Format::Yaml, "application.yml").unwrap();
    let routes = Routes::from_properties(&properties).unwrap();
    assert_eq!(routes.ids().collect::<Vec<_>>(), ["on"]);
    let notes: Vec<_> = routes.notes().iter().map(|note| format!("{}: {}", note.key, note.reason)).collect();
    for part in [
        "locator.enabled: it is not read",
        "switched off",
        "the path of the uri is not used",
        "default-filter",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
    let warnings: Vec<_> = properties.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("did you mean evenkeel.gateway.default-filters?"), "{warnings:?}");
    let settings = GatewaySettings::from_properties(&properties).unwrap();
    assert!(settings.use404 && settings.x_forwarded && settings.response_timeout.is_none());
}

#[test]
fn settings_are_read_and_checked() {
    let properties = |pairs: &[(&str, &str)]| {
        let set = |properties: Properties, (key, value): &(&str, &str)| {
            properties.set(&format!("evenkeel.gateway.{key}"), value).unwrap()
        };
        pairs.iter().fold(Properties::default(), set)
    };
    let settings = GatewaySettings::from_properties(&properties(&[
        ("httpclient.connect-timeout", "200"),
        ("httpclient.response-timeout", "-1"),
        ("x-forwarded.enabled", "false"),
        ("trusted-proxies", "10\\.0\\.0\\..*"),
    ]))
    .unwrap();
    assert_eq!(settings.connect_timeout.unwrap().as_millis(), 200);
    assert!(settings.response_timeout.is_none() && !settings.x_forwarded);
    assert!(settings.trusted_proxies.unwrap().is_match("10.0.0.7"));
    let variables =
        [("EVENKEEL_GATEWAY_TRUSTED_PROXIES", "a"), ("SPRING_CLOUD_GATEWAY_X_FORWARDED_ENABLED", "false")];
    let of_variables = Properties::default().with_environment(variables).unwrap();
    assert!(of_variables.warnings().is_empty(), "{:?}", of_variables.warnings());
    let settings = GatewaySettings::from_properties(&of_variables).unwrap();
    assert!(settings.trusted_proxies.is_some() && !settings.x_forwarded && settings.forwarded);
    let error = GatewaySettings::from_properties(&properties(&[
        ("trusted-proxies", "("),
        ("loadbalancer.use404", "maybe"),
    ]));
    assert_eq!(error.unwrap_err().problems().len(), 2);
}
