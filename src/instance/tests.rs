use super::*;

fn builder() -> ServiceInstanceBuilder {
    ServiceInstance::builder("10.0.0.1").port(8080).id("a")
}

#[test]
fn identity_is_id_host_port_and_scheme() {
    let a = builder().build().unwrap();
    let reweighted = builder().zone("z").with_metadata("k", "v").status(Status::Down).build().unwrap();
    assert!(a.same_identity(&reweighted));
    assert_ne!(a, reweighted);
    for other in [builder().id("b"), builder().port(8081), builder().secure(true), builder().scheme("grpc")] {
        assert!(!a.same_identity(&other.build().unwrap()));
    }
    // An explicit scheme and the flag that means the same are one address.
    let (flag, own) = (builder().secure(true).build().unwrap(), builder().scheme("HTTPS").build().unwrap());
    assert!(flag.same_identity(&own));
}

#[test]
fn case_046_authorities_are_bracketed_once() {
    for (host, authority) in [("2001:db8::5", "[2001:db8::5]:8080"), ("[2001:db8::6]", "[2001:db8::6]:8080")]
    {
        let instance = ServiceInstance::new(host, 8080).unwrap();
        assert_eq!(instance.authority(), authority);
        assert_eq!(instance.id(), instance.host().to_owned() + ":8080");
    }
    let (a, b) = (ServiceInstance::new("[::1]", 1).unwrap(), ServiceInstance::new("::1", 1).unwrap());
    assert!(a.same_identity(&b));
}

#[test]
fn case_050_scheme_table() {
    let p = ServiceInstance::builder("p").port(8080).secure(false).build().unwrap();
    let s = ServiceInstance::builder("s").port(8443).secure(true).build().unwrap();
    let u = ServiceInstance::builder("u").port(9000).build().unwrap();
    let own = ServiceInstance::builder("o").port(1).secure(false).scheme("https").build().unwrap();
    let of = |i: &ServiceInstance, r| Target::of(i, r, false).map(|t| t.url("/x"));
    let (p_url, s_url) = ("http://p:8080/x", "https://s:8443/x");
    for (requested, for_p, for_s, for_u) in [
        (Some("http"), Some(p_url), s_url, "http://u:9000/x"),
        (Some("https"), None, s_url, "https://u:9000/x"),
        (Some("HTTPS"), None, s_url, "https://u:9000/x"),
        (Some("lb"), Some(p_url), s_url, "http://u:9000/x"),
        (Some("ws"), Some("ws://p:8080/x"), "wss://s:8443/x", "ws://u:9000/x"),
        (Some("wss"), None, "wss://s:8443/x", "wss://u:9000/x"),
        (None, Some(p_url), s_url, "http://u:9000/x"),
        (Some(""), Some(p_url), s_url, "http://u:9000/x"),
    ] {
        assert_eq!(of(&p, requested).ok().as_deref(), for_p, "{requested:?}");
        assert_eq!(of(&s, requested).unwrap(), for_s);
        assert_eq!(of(&u, requested).unwrap(), for_u);
        assert_eq!(of(&own, requested).unwrap(), "https://o:1/x");
    }
    assert_eq!(Target::of(&p, Some("https"), true).unwrap().scheme(), "http");
    let error = of(&p, Some("https")).unwrap_err().to_string();
    assert!(error.contains("p:8080") && error.contains("allow-downgrade"), "{error}");
}

#[test]
fn case_049_a_rewrite_touches_nothing_but_scheme_and_authority() {
    let target = Target::of(&ServiceInstance::new("h", 1).unwrap(), None, false).unwrap();
    for path in [
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
        "/",
    ] {
        assert_eq!(target.rewrite(&format!("http://svc{path}")), format!("http://h:1{path}"));
        assert_eq!(
            target.rewrite(&format!("lb://user:pass@svc:9{path}#frag/?x")),
            format!("http://h:1{path}")
        );
    }
    assert_eq!(target.rewrite("lb://svc"), "http://h:1/");
}

#[test]
fn case_051_ports_out_of_range_are_refused_with_the_id() {
    for port in [0_i64, -1, 70_000, i64::MIN] {
        let error = ServiceInstance::builder("h").id("c").port(port).build().unwrap_err();
        assert_eq!((error.id(), error.field(), error.value()), ("c", "port", port.to_string().as_str()));
    }
    let without = ServiceInstance::builder("h").build().unwrap();
    assert_eq!((without.port(), without.id()), (None, "h"));
    assert_eq!(Target::of(&without, Some("https"), false).unwrap().default_port(), Some(443));
}

#[test]
fn case_010_a_zone_is_trimmed_and_read_from_metadata() {
    assert_eq!(builder().with_metadata("zone", " eu-1a ").build().unwrap().zone(), Some("eu-1a"));
    assert_eq!(builder().zone("  ").build().unwrap().zone(), None);
    assert_eq!(builder().zone("x").with_metadata("zone", "y").build().unwrap().zone(), Some("x"));
}

#[test]
fn a_builder_from_an_instance_changes_nothing() {
    let all = builder()
        .zone("z")
        .weight(Weight::new(2.5).unwrap())
        .priority(3)
        .secure(true)
        .status(Status::Degraded);
    let instance = all.with_metadata("k", "v").service_id(ServiceId::new("s").unwrap()).build().unwrap();
    assert_eq!(instance.to_builder().build().unwrap(), instance);
}
