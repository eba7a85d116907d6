//! Headers that are handed on: before the choice, and on the wire.

use super::net::*;
use evenkeel::LoadBalancers;
use evenkeel::client::Propagated;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use http::{HeaderName, HeaderValue};

#[tokio::test]
async fn a_canary_is_chosen_by_what_is_handed_on_and_is_told_of_it() {
    let (stable, canary) = (Server::start("a", Act::Answer).await, Server::start("b", Act::Answer).await);
    let hinted = |server: &Server, hint: &str| {
        server.instance().to_builder().with_metadata("hint", hint).build().unwrap()
    };
    let instances = [hinted(&stable, "stable"), hinted(&canary, "canary")];
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let mut client = EchoClient::new(balancers.tonic("orders"));
    let hint = (HeaderName::from_static("x-sc-lb-hint"), HeaderValue::from_static("canary"));
    for _ in 0..4 {
        Propagated::default()
            .with(hint.0.clone(), hint.1.clone())
            .scope(client.say(word("x")))
            .await
            .unwrap();
    }
    assert_eq!((canary.served(), stable.served()), (4, 0));
    for _ in 0..4 {
        client.say(word("x")).await.unwrap();
    }
    assert_eq!((canary.served(), stable.served()), (6, 2));
    let told = canary.seen().iter().filter(|seen| seen.headers.contains_key("x-sc-lb-hint")).count();
    assert_eq!(told, 4);
}
