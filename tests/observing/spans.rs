//! The fields of an attempt's span.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel::call::call;
use evenkeel::{Failure, LoadBalancer, Outcome, Request, RequestView, ServiceInstance};

use crate::subscriber::{listen, spans};

struct Get;

impl RequestView for Get {
    fn method(&self) -> Option<&str> {
        Some("GET")
    }
    fn url(&self) -> Option<Cow<'_, str>> {
        Some("lb://orders/api/42".into())
    }
}

#[tokio::test]
async fn a_span_has_the_service_as_server_the_instance_as_peer_and_counts_what_is_sent_again() {
    listen();
    let both = ["a", "b"]
        .map(|id| ServiceInstance::builder(format!("{id}.test")).port(8080).id(id).build().unwrap());
    let balancer = LoadBalancer::fixed("spanned", both).unwrap();
    let sent = AtomicU32::new(0);
    let send = |_: &evenkeel::Choice, _| {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        Some(async move { if number == 0 { Err("refused") } else { Ok(()) } })
    };
    let classify = |result: Result<&(), &&str>| match result {
        Ok(()) => Outcome::Status(200),
        Err(_) => Outcome::Failure(Failure::Connect),
    };
    let request = Request::of(&Get);
    let answer = call(&balancer, &request, classify, send).await.unwrap();
    let found = spans("attempt", "server.address", "spanned");
    assert_eq!(found.len(), 2);
    let get = |at: usize, field: &str| found[at].fields.get(field).map(String::as_str);
    for at in [0, 1] {
        assert_eq!((found[at].level, &*found[at].target), (tracing::Level::INFO, "evenkeel::call"));
        assert_eq!((get(at, "otel.kind"), get(at, "http.request.method")), (Some("client"), Some("GET")));
        assert_eq!(get(at, "network.peer.port"), Some("8080"));
    }
    assert_eq!(get(1, "network.peer.address"), Some(&*answer.instance.host().to_owned()));
    assert_ne!(get(0, "network.peer.address"), get(1, "network.peer.address"));
    assert_eq!((get(0, "http.request.resend_count"), get(1, "http.request.resend_count")), (None, Some("1")));
    answer.lease.complete(Outcome::Status(200));
    // No field beside those of the guide's table.
    let guide = std::fs::read_to_string("src/guide/observing.md").unwrap();
    for field in found.iter().flat_map(|span| span.fields.keys()) {
        assert!(guide.contains(&format!("`{field}`")), "{field}");
    }
}
