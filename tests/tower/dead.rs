//! The first dead server, and what is repeated and what is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::net::*;
use super::support::{client, send};
use evenkeel::Failure;
use evenkeel::config::Properties;
use http::Method;

#[tokio::test]
async fn case_026_what_was_never_sent_goes_to_another_whatever_its_method() {
    for method in [Method::GET, Method::POST] {
        let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
        let http = client(&balancers([dead.instance("a"), live.instance("b")], Properties::default()));
        let mut attempts = 0;
        for _ in 0..10 {
            let via = send(&http, method.clone()).await.unwrap();
            assert_eq!(via.instance().id(), "b");
            attempts += via.attempts();
        }
        assert_eq!(live.served(), 10);
        assert_eq!(attempts, 11, "the dead one was tried once, and skipped from then on");
        assert_eq!(http.balancers().in_flight(), 0);
    }
}

#[tokio::test]
async fn a_call_that_breaks_off_is_repeated_once_if_its_method_is_safe() {
    for (method, fails) in [(Method::HEAD, 0), (Method::POST, 1), (Method::PUT, 1)] {
        let (breaking, live) = (Server::start(Act::Break).await, Server::start(ok("")).await);
        let http = client(&balancers([breaking.instance("r"), live.instance("b")], Properties::default()));
        let mut errors = Vec::new();
        for _ in 0..2 {
            let body = if method == Method::HEAD { "" } else { "body" };
            let request = super::support::request(method.clone(), "lb://orders/x", body);
            errors.extend(http.request(request).await.err());
        }
        assert_eq!(errors.len(), fails, "{method}: {errors:?}");
        for error in &errors {
            assert_eq!(error.failure(), Some(Failure::Reset), "{error:?}");
            assert!(error.to_string().contains("r (127.0.0.1:"), "{error}");
        }
        assert_eq!((breaking.served(), live.served()), (1, 2 - fails), "{method}");
    }
}

#[tokio::test]
async fn a_single_instance_gives_the_original_error_with_its_name() {
    let dead = Refusing::new();
    let http = client(&balancers([dead.instance("a")], Properties::default()));
    for _ in 0..3 {
        let error = send(&http, Method::GET).await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::Connect));
        assert_eq!(error.tried().len(), 1, "{error}");
        let text = error.to_string();
        assert!(text.contains("\"orders\"") && text.contains("a (127.0.0.1:"), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
    assert_eq!(http.balancers().in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_get_fails_when_one_of_three_is_killed_under_load() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(ok("")).await);
    }
    let instances = servers.iter().zip(["a", "b", "c"]).map(|(server, id)| server.instance(id));
    let http = client(&balancers(instances, killable()));
    let (running, answered) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (http, running, answered) = (http.clone(), Arc::clone(&running), Arc::clone(&answered));
            tokio::spawn(async move {
                while running.load(Ordering::Relaxed) {
                    let call = http.request(super::support::get("lb://orders/x"));
                    let response = ends("a GET", call).await.unwrap();
                    ends("its body", super::support::text(response)).await;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("load", || servers[0].served() > 100).await;
    servers[0].kill();
    let at_death = answered.load(Ordering::Relaxed);
    eventually("more load", || answered.load(Ordering::Relaxed) > at_death + 500).await;
    running.store(false, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(http.balancers().in_flight(), 0);
}
