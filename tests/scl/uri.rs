//! 3.21 URI reconstruction: cases 258 to 273. The instance is test.example:8080 unless a test says otherwise.

use evenkeel::{ServiceInstance, ServiceInstanceBuilder, Target};

fn at(port: u16) -> ServiceInstanceBuilder {
    ServiceInstance::builder("test.example").port(port).id("a")
}

/// `original` as it goes to the instance.
fn rewritten(instance: ServiceInstanceBuilder, original: &str) -> String {
    let scheme = original.split_once("://").map(|(scheme, _)| scheme);
    Target::of(&instance.build().unwrap(), scheme, false).unwrap().rewrite(original)
}

/// The port that is dialled for a request of this scheme.
fn dialled(instance: ServiceInstanceBuilder, scheme: &str) -> Option<u16> {
    let instance = instance.build().unwrap();
    let target = Target::of(&instance, Some(scheme), false).unwrap();
    assert!(!target.authority().contains(':'), "{target:?}");
    instance.port().or(target.default_port())
}

#[test]
fn scl_258_a_url_of_the_instance_stays() {
    assert_eq!(rewritten(at(8080), "http://test.example:8080/xxx"), "http://test.example:8080/xxx");
}

#[test]
fn scl_259_the_host_is_that_of_the_instance() {
    assert_eq!(rewritten(at(8080), "http://testHost.example:8080/xxx"), "http://test.example:8080/xxx");
}

#[test]
fn scl_260_the_scheme_of_the_instance_wins_over_that_of_the_request() {
    let https = at(8443).scheme("https");
    assert_eq!(rewritten(https, "http://testHost.example/xxx"), "https://test.example:8443/xxx");
}

#[test]
fn scl_261_https_is_kept_where_the_instance_says_nothing_and_refused_where_it_says_no() {
    assert_eq!(rewritten(at(8443), "https://orders/xxx"), "https://test.example:8443/xxx");
    let insecure = at(8443).secure(false).build().unwrap();
    let error = Target::of(&insecure, Some("https"), false).unwrap_err();
    assert!(error.to_string().contains("a (test.example:8443) says secure: false"), "{error}");
    let allowed = Target::of(&insecure, Some("https"), true).unwrap();
    assert_eq!(allowed.rewrite("https://orders/xxx"), "http://test.example:8443/xxx");
}

#[test]
fn scl_262_a_secure_instance_makes_http_into_https() {
    assert_eq!(rewritten(at(8443).secure(true), "http://orders/xxx"), "https://test.example:8443/xxx");
}

#[test]
fn scl_263_a_secure_instance_makes_ws_into_wss() {
    assert_eq!(rewritten(at(8443).secure(true), "ws://orders/xxx"), "wss://test.example:8443/xxx");
}

#[test]
fn scl_264_a_url_without_a_scheme_is_http() {
    assert_eq!(rewritten(at(8080), "//test.example/xxx"), "http://test.example:8080/xxx");
    assert_eq!(rewritten(at(8080).secure(true), "//test.example/xxx"), "https://test.example:8080/xxx");
    // A path alone stays, whatever its query holds.
    let target = Target::of(&at(8080).build().unwrap(), None, false).unwrap();
    assert_eq!(target.rewrite("/x?next=http://y/z"), "http://test.example:8080/x?next=http://y/z");
    assert_eq!(target.rewrite("/a//b"), "http://test.example:8080/a//b");
}

#[test]
fn scl_265_port_0_is_no_port() {
    let error = at(0).build().unwrap_err();
    assert_eq!((error.id(), error.field(), error.value()), ("a", "port", "0"));
}

#[test]
fn scl_266_without_a_port_http_is_80() {
    assert!(ServiceInstance::builder("test.example").port(-1).build().is_err());
    let without = || ServiceInstance::builder("test.example");
    assert_eq!(dialled(without(), "http"), Some(80));
    assert_eq!(rewritten(without(), "http://orders:99/xxx"), "http://test.example/xxx");
}

#[test]
fn scl_267_without_a_port_https_is_443() {
    let without = || ServiceInstance::builder("test.example");
    assert_eq!(dialled(without(), "https"), Some(443));
    assert_eq!(rewritten(without(), "https://orders:99/xxx"), "https://test.example/xxx");
}

#[test]
fn scl_268_path_and_query_survive_and_what_is_not_for_the_instance_does_not() {
    let original = "http://user:secret@orders:99/path/of?query=a&b#fragment";
    assert_eq!(rewritten(at(8080), original), "http://test.example:8080/path/of?query=a&b");
}

#[test]
fn scl_269_escapes_survive_byte_for_byte() {
    let original = "http://orders/%40%21%242/path?%40%21%242=%40%21%242#%40%21%242";
    assert_eq!(
        rewritten(at(8080), original),
        "http://test.example:8080/%40%21%242/path?%40%21%242=%40%21%242"
    );
}

#[test]
fn scl_270_without_a_port_wss_is_443() {
    let without = || ServiceInstance::builder("test.example");
    assert_eq!(dialled(without(), "wss"), Some(443));
    assert_eq!(dialled(without().secure(true), "ws"), Some(443));
    assert_eq!(dialled(without(), "ws"), Some(80));
}

#[test]
fn scl_271_a_scheme_of_its_own_beats_the_flag() {
    let both = at(8080).scheme("http").secure(true);
    assert_eq!(rewritten(both, "http://orders/xxx"), "http://test.example:8080/xxx");
    let both = at(8080).scheme("http").secure(true);
    assert_eq!(rewritten(both, "https://orders/xxx"), "http://test.example:8080/xxx");
}

#[test]
fn scl_272_the_port_of_the_instance_is_written_also_when_it_is_the_schemes() {
    assert_eq!(rewritten(at(80), "http://test.example/xxx"), "http://test.example:80/xxx");
}
