//! The hash of a request.

use evenkeel::policy::HashKey;
use evenkeel::{HttpView, Request, RequestView};

fn http(headers: &[(&str, &str)]) -> http::Request<()> {
    let mut request = http::Request::builder().uri("/orders/7?user=a+b&n=1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn hash(key: &HashKey, headers: &[(&str, &str)]) -> Option<u64> {
    let request = http(headers);
    let view = HttpView::of(&request);
    key.hash(&Request::of(&view))
}

#[test]
fn lbs_a_key_is_the_xxh64_of_a_text() {
    assert_eq!(HashKey::hash_of("abc"), 0x44bc_2cf5_ad77_0999);
    let of = |text: &str| Some(HashKey::hash_of(text));
    assert_eq!(hash(&HashKey::header("X-User"), &[("x-user", "abc")]), of("abc"));
    assert_eq!(hash(&HashKey::header("x-user"), &[("x-user", "")]), of(""), "an empty text is a text");
    assert_eq!(hash(&HashKey::cookie("sid"), &[("cookie", "a=1; sid=abc")]), of("abc"));
    assert_eq!(hash(&HashKey::query("user"), &[]), of("a b"));
    assert_eq!(hash(&HashKey::path(), &[]), of("/orders/7"));
    let function = HashKey::function(|request| Some(HashKey::hash_of(request.header("x-user")?)));
    assert_eq!(hash(&function, &[("x-user", "abc")]), of("abc"));
    for key in [
        HashKey::header("x-user"),
        HashKey::cookie("sid"),
        HashKey::query("nobody"),
        HashKey::attribute("tenant"),
        HashKey::source(),
        function,
        HashKey::default(),
    ] {
        assert_eq!(hash(&key, &[]), None, "{key:?}");
    }
}

#[test]
fn lbs_values_of_one_header_are_joined_with_a_comma() {
    let key = HashKey::header("x-user");
    let joined = Some(HashKey::hash_of("a,b,c"));
    assert_eq!(hash(&key, &[("x-user", "a"), ("y", "0"), ("X-User", "b"), ("x-user", "c")]), joined);
    let many: Vec<String> = (0..20).map(|at| format!("x-{at}")).collect();
    let mut headers: Vec<_> = many.iter().map(|name| (name.as_str(), "0")).collect();
    headers.extend([("x-user", "a"), ("x-user", "b"), ("x-user", "c")]);
    assert_eq!(hash(&key, &headers), joined, "also among many headers");
}

#[test]
fn lbs_parts_are_combined_by_a_turn_and_xor() {
    let part = |hash: Option<u64>| HashKey::function(move |_| hash);
    let of = |parts: &[(Option<u64>, bool)]| {
        let one = |&(hash, terminal)| if terminal { part(hash).terminal() } else { part(hash) };
        hash(&parts.iter().map(one).fold(HashKey::default(), HashKey::and), &[])
    };
    let (go, stop) = (false, true);
    assert_eq!(of(&[(Some(7), go)]), Some(7), "the first alone is itself");
    assert_eq!(of(&[(Some(1), go), (Some(2), go)]), Some(0));
    assert_eq!(of(&[(Some(2), go), (Some(1), go)]), Some(5), "order matters");
    assert_eq!(of(&[(Some(1 << 63), go), (Some(0), go)]), Some(1), "it turns, it does not shift");
    assert_eq!(of(&[(Some(1), go), (Some(2), go), (Some(4), go)]), Some(4));
    assert_eq!(of(&[(Some(3), stop), (Some(2), go)]), Some(3), "terminal");
    assert_eq!(of(&[(None, stop), (Some(2), go)]), Some(2), "terminal, and not there");
    assert_eq!(of(&[(Some(3), go), (None, stop), (Some(2), go)]), Some(3), "a hash before it counts");
    assert_eq!(of(&[(None, go), (Some(2), go), (None, go)]), Some(2));
    assert_eq!(of(&[(None, go), (None, go)]), None);
    assert!(HashKey::default().is_empty() && !HashKey::path().is_empty());
}

struct From(&'static str);

impl RequestView for From {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == HashKey::SOURCE).then_some(self.0)
    }
    fn header(&self, name: &str) -> Option<&str> {
        (name == "x-one").then_some("1")
    }
}

#[test]
fn lbs_the_source_is_an_attribute_that_the_client_gives() {
    let request = From("10.1.2.3");
    assert_eq!(HashKey::SOURCE, "client.address");
    assert_eq!(HashKey::source().hash(&Request::of(&request)), Some(HashKey::hash_of("10.1.2.3")));
    // A view that knows one value of a header.
    assert_eq!(HashKey::header("x-one").hash(&Request::of(&request)), Some(HashKey::hash_of("1")));
    let key = HashKey::cookie("sid").terminal().and(HashKey::source()).and(HashKey::path());
    assert_eq!(format!("{key:?}"), "[cookie:sid!, attribute:client.address, path]");
}
