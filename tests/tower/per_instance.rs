//! A service per instance, for requests of any kind.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use evenkeel::client::Propagated;
use evenkeel::client::tower::BoxError;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{Failure, LoadBalancer, Outcome, ServiceId, ServiceInstance, SupplierBuilder};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tokio::sync::Notify;
use tower::{Service, ServiceExt};

use super::net::{Server, balancers, eventually, header, ok};

fn instance(id: &str) -> ServiceInstance {
    ServiceInstance::builder(format!("{id}.test")).port(7000).id(id).build().unwrap()
}

/// A service that says who it is when it is let go on, and counts how many of it live.
#[derive(Clone)]
struct Teller {
    id: String,
    gate: Option<Arc<Notify>>,
    _alive: Arc<Alive>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service<u32> for Teller {
    type Response = String;
    type Error = std::io::Error;
    type Future = evenkeel::BoxFuture<'static, Result<String, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, question: u32) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            // The whole of it, for as long as the call takes.
            let this = this;
            if let Some(gate) = &this.gate {
                gate.notified().await;
            }
            Ok(format!("{question} {}", this.id))
        })
    }
}

fn live(ids: &[&str]) -> (SimpleDiscovery, LoadBalancer) {
    let registry = SimpleDiscovery::new();
    registry.set(&ServiceId::new("orders").unwrap(), ids.iter().map(|id| instance(id)));
    let supplier = SupplierBuilder::new("orders").with_discovery_client(registry.clone()).build().unwrap();
    (registry, LoadBalancer::builder(supplier).build())
}

#[tokio::test]
async fn a_service_is_made_once_and_let_go_when_its_instance_leaves() {
    let (registry, orders) = live(&["a", "b"]);
    let (made, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Notify::new());
    let (count, living, held) = (Arc::clone(&made), Arc::clone(&alive), Arc::clone(&gate));
    let service = orders.make(move |instance| {
        count.fetch_add(1, Ordering::SeqCst);
        living.fetch_add(1, Ordering::SeqCst);
        let gate = (instance.id() == "a").then(|| Arc::clone(&held));
        Ok::<_, std::io::Error>(Teller {
            id: instance.id().to_owned(),
            gate,
            _alive: Arc::new(Alive(Arc::clone(&living))),
        })
    });
    // Two calls: one waits at `a`.
    let calls: Vec<_> = (0..2).map(|n| tokio::spawn(service.clone().oneshot(n))).collect();
    eventually("the call to b", || calls.iter().any(tokio::task::JoinHandle::is_finished)).await;
    assert_eq!((made.load(Ordering::SeqCst), orders.in_flight()), (2, 1));

    registry.set(orders.service_id(), [instance("b"), instance("c")]);
    eventually("the new list", || {
        orders.snapshot().is_some_and(|list| {
            list.instances().len() == 2 && list.instances().all(|state| state.instance().id() != "a")
        })
    })
    .await;
    let mut answers = Vec::new();
    for n in 0..20 {
        answers.push(service.clone().oneshot(n).await.unwrap());
    }
    assert!(answers.iter().all(|answer| !answer.ends_with('a')), "{answers:?}");
    assert_eq!((made.load(Ordering::SeqCst), alive.load(Ordering::SeqCst)), (3, 3), "a is in flight");
    gate.notify_one();
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.unwrap().unwrap());
    }
    assert!(ends.iter().any(|end| end.ends_with('a')), "the call in flight ended undisturbed: {ends:?}");
    assert_eq!((alive.load(Ordering::SeqCst), orders.in_flight()), (2, 0), "and took its service along");
}

#[tokio::test]
async fn a_service_that_cannot_be_made_is_a_failure_to_connect() {
    let (_registry, orders) = live(&["a", "b"]);
    let made = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&made);
    let service = orders.make(move |instance| {
        kept.lock().unwrap().push(instance.id().to_owned());
        if instance.id() == "a" {
            return Err(std::io::Error::other("no route"));
        }
        Ok(tower::service_fn(async |question: u32| Ok::<_, std::io::Error>(question * 2)))
    });
    for n in 0..10 {
        assert_eq!(service.clone().oneshot(n).await.unwrap(), n * 2);
    }
    let made = made.lock().unwrap().clone();
    assert_eq!(made.iter().filter(|id| *id == "a").count(), 1, "skipped from then on: {made:?}");
    let skipped: Vec<_> = orders.snapshot().unwrap().instances().map(|state| state.is_skipped()).collect();
    assert_eq!((skipped.iter().filter(|skipped| **skipped).count(), orders.in_flight()), (1, 0));
}

#[tokio::test]
async fn if_none_can_be_made_the_error_names_both() {
    let (_registry, orders) = live(&["a", "b", "c"]);
    let service = orders.make(|_| {
        let failed: Result<tower::util::BoxCloneSyncService<u32, u32, BoxError>, _> =
            Err(std::io::Error::other("no route"));
        failed
    });
    let error = service.oneshot(1).await.unwrap_err();
    assert_eq!((error.tried().len(), error.failure()), (2, Some(Failure::Connect)));
    assert_ne!(error.tried()[0], error.tried()[1]);
    let text = error.to_string();
    assert!(text.contains("\"orders\"") && text.contains("no route") && text.contains(", then "), "{text}");
    assert_eq!(orders.in_flight(), 0);
}

/// Never ready.
#[derive(Clone)]
struct Unready(bool);

impl Service<u32> for Unready {
    type Response = u32;
    type Error = BoxError;
    type Future = std::future::Ready<Result<u32, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(if self.0 { Ok(()) } else { Err("closed".into()) })
    }

    fn call(&mut self, question: u32) -> Self::Future {
        assert!(self.0, "a service that is not ready is not called");
        std::future::ready(Ok(question))
    }
}

#[tokio::test]
async fn a_service_that_is_not_ready_did_not_get_the_call() {
    let (_registry, orders) = live(&["a", "b"]);
    let mut service = orders.make(|instance| Ok::<_, BoxError>(Unready(instance.id() == "b")));
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    for n in 0..6 {
        assert_eq!(service.call(n).await.unwrap(), n);
    }
    assert_eq!(orders.in_flight(), 0);
}

#[tokio::test]
async fn a_service_that_failed_is_made_anew() {
    let (_registry, orders) = live(&["a"]);
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    // The connection of the first one is gone, as after a restart of its server.
    let mut service =
        orders.make(move |_| Ok::<_, BoxError>(Unready(counted.fetch_add(1, Ordering::SeqCst) > 0)));
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let error = service.call(1).await.unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    for n in 0..3 {
        assert_eq!(service.call(n).await.unwrap(), n);
    }
    assert_eq!((made.load(Ordering::SeqCst), orders.in_flight()), (2, 0));
}

#[tokio::test]
async fn a_closure_judges_what_an_answer_says_of_the_instance() {
    let (_registry, orders) = live(&["a"]);
    let (heard, judged) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, says) = (Arc::clone(&heard), Arc::clone(&judged));
    let service = orders
        .make(move |_| {
            let count = Arc::clone(&count);
            Ok::<_, BoxError>(tower::service_fn(move |question: u32| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { if question == 7 { Err(BoxError::from("seven")) } else { Ok(question) } }
            }))
        })
        .judge(move |result: Result<&u32, &(dyn std::error::Error + 'static)>| {
            says.fetch_add(1, Ordering::SeqCst);
            match result {
                Ok(_) => Outcome::Success,
                Err(error) if error.to_string() == "seven" => Outcome::Failure(Failure::Connect),
                Err(_) => Outcome::Failure(Failure::Other),
            }
        });
    assert_eq!(service.clone().oneshot(1).await.unwrap(), 1);
    let error = service.clone().oneshot(7).await.unwrap_err();
    assert!(error.to_string().contains("seven") && error.tried().len() == 1, "{error}");
    assert_eq!((heard.load(Ordering::SeqCst), judged.load(Ordering::SeqCst)), (2, 2));
    assert!(orders.snapshot().unwrap().instances().all(|state| state.is_skipped()), "as the closure said");
}

#[tokio::test]
async fn services_of_http_hold_the_lease_to_the_end_of_the_body() {
    let (one, two) = (Server::start(ok("1")).await, Server::start(ok("2")).await);
    let orders = LoadBalancer::fixed("orders", [one.instance("a"), two.instance("b")]).unwrap();
    let service = orders
        .make(|instance| {
            let address = instance.authority();
            let hyper = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
            let to_it = move |mut request: http::Request<Full<Bytes>>| {
                *request.uri_mut() = format!("http://{address}{}", request.uri().path()).parse().unwrap();
                request
            };
            Ok::<_, BoxError>(hyper.build_http().map_request(to_it))
        })
        .http();
    for _ in 0..4 {
        let request = http::Request::get("/x").body(Full::default()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!((response.status().as_u16(), orders.in_flight()), (200, 1));
        response.into_body().collect().await.unwrap();
        assert_eq!(orders.in_flight(), 0);
    }
    assert_eq!((one.served(), two.served()), (2, 2));
}

fn with_hint(instance: &ServiceInstance, hint: &str) -> ServiceInstance {
    instance.to_builder().with_metadata("hint", hint).build().unwrap()
}

/// A balancer by hints.
fn by_hints(instances: impl IntoIterator<Item = ServiceInstance>) -> LoadBalancer {
    let properties = Properties::default().set("configurations", "hint").unwrap();
    balancers(instances, properties).get("orders").unwrap()
}

fn canary() -> Propagated {
    let named = http::HeaderName::from_static("x-sc-lb-hint");
    Propagated::default().with(named, http::HeaderValue::from_static("canary"))
}

#[tokio::test]
async fn services_of_http_are_told_what_is_handed_on_and_the_second_choice_goes_by_it_too() {
    let (stable, live) = (Server::start(ok("stable")).await, Server::start(ok("canary")).await);
    let mut failed_over = 0;
    for _ in 0..16 {
        let dead = with_hint(&instance("dead"), "canary");
        let orders = by_hints([
            dead,
            with_hint(&live.instance("b"), "canary"),
            with_hint(&stable.instance("s1"), "stable"),
            with_hint(&stable.instance("s2"), "stable"),
        ]);
        let tried = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tried);
        let service = orders
            .make(move |instance| {
                if instance.id() == "dead" {
                    count.fetch_add(1, Ordering::SeqCst);
                    return Err(BoxError::from("no route"));
                }
                let address = instance.authority();
                let hyper = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
                let to_it = move |mut request: http::Request<Full<Bytes>>| {
                    *request.uri_mut() = format!("http://{address}{}", request.uri().path()).parse().unwrap();
                    request
                };
                Ok(hyper.build_http().map_request(to_it))
            })
            .http();
        let request = || http::Request::get("/x").body(Full::default()).unwrap();
        for _ in 0..2 {
            let response = canary().scope(service.clone().oneshot(request())).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "canary");
        }
        failed_over += tried.load(Ordering::SeqCst);
    }
    assert_eq!((failed_over, live.served(), stable.served()), (16, 32, 0));
    assert!(live.heads().iter().all(|head| header(head, "x-sc-lb-hint") == Some("canary")));
}

#[tokio::test]
async fn requests_of_any_kind_are_sent_by_what_is_handed_on_where_the_call_is_made() {
    for _ in 0..16 {
        let canaries = ["dead", "b"].map(|id| with_hint(&instance(id), "canary"));
        let others = ["s1", "s2"].map(|id| with_hint(&instance(id), "stable"));
        let orders = by_hints(canaries.into_iter().chain(others));
        let service = orders.make(move |instance| match instance.id() {
            "dead" => Err(BoxError::from("no route")),
            id => Ok(Teller { id: id.to_owned(), gate: None, _alive: Arc::new(Alive(Arc::default())) }),
        });
        for n in 0..2 {
            // Made in the scope, the first one before there is a list, and awaited out of it.
            let call = canary().sync_scope(|| service.clone().call(n));
            assert_eq!(call.await.unwrap(), format!("{n} b"));
        }
    }
}
