//! Redirects: what was answered with one was sent, whatever happens on the way that it leads.

use super::net::*;
use evenkeel::client::reqwest::Via;
use evenkeel::config::Properties;
use reqwest::Method;

fn redirect(status: u16, location: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} -\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
}

#[tokio::test]
async fn a_call_that_was_redirected_to_a_dead_server_was_sent_and_is_repeated_only_if_that_is_safe() {
    for (status, method, attempts) in [(302, Method::POST, 1), (307, Method::POST, 1), (302, Method::GET, 2)]
    {
        let dead = Refusing::new();
        let there = dead.instance("x").authority();
        let act = redirect(status, &format!("http://{there}/there"));
        let (first, second) = (Server::start(act.clone()).await, Server::start(act).await);
        let http = over([first.instance("a"), second.instance("b")]);
        // Also over a connection that is there already.
        for calls in 1..=4 {
            let error = http.request(method.clone(), "lb://orders/x").body("once").send().await.unwrap_err();
            assert_eq!(error.tried().len(), attempts, "{error}");
            assert!(error.reqwest_error().unwrap().is_connect());
            assert_eq!(first.served() + second.served(), calls * attempts, "{status} {method}");
        }
        let balancer = http.balancers().get("orders").unwrap();
        let list = balancer.snapshot().unwrap();
        assert!(list.instances().all(|state| !state.is_skipped()), "both answered");
    }
}

#[tokio::test]
async fn redirects_are_followed_as_the_settings_of_the_client_say() {
    let end = Server::start(ok("there")).await;
    let server = Server::start(redirect(302, &format!("http://{}/there", end.address))).await;
    let balancers = balancers([server.instance("a")], Properties::default());
    let response = client(&balancers).get("lb://orders/x").send().await.unwrap();
    assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "a");
    assert_eq!(response.url().path(), "/there");
    assert_eq!(response.text().await.unwrap(), "there");
    let none = || reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let http = balancers.reqwest(move |_| none()).unwrap();
    assert_eq!(http.get("lb://orders/x").send().await.unwrap().status(), 302);

    let circle = Server::start(redirect(302, "/again")).await;
    let http = over([circle.instance("a")]);
    assert!(http.get("lb://orders/x").send().await.unwrap_err().reqwest_error().unwrap().is_redirect());
    assert_eq!(circle.served(), 11, "reqwest's own limit");
    let two = || reqwest::Client::builder().redirect(reqwest::redirect::Policy::limited(2));
    let http = http.balancers().reqwest(move |_| two()).unwrap();
    http.get("lb://orders/x").send().await.unwrap_err();
    assert_eq!(circle.served(), 11 + 3);
}
