//! What a call says of itself beside its metadata.

use std::sync::{Arc, Mutex};

use super::net::*;
use evenkeel::LoadBalancers;
use evenkeel::client::tonic::CallOptions;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::observe::{CallStart, Lifecycle};

/// Remembers the templates of the calls.
#[derive(Clone, Debug, Default)]
struct Templates(Arc<Mutex<Vec<Option<String>>>>);

impl Lifecycle for Templates {
    fn on_start(&self, call: &CallStart<'_>) {
        self.0.lock().unwrap().push(call.call.template.clone());
    }
}

fn with(options: CallOptions) -> tonic::Request<Word> {
    let mut request = tonic::Request::new(word("x"));
    request.extensions_mut().insert(options);
    request
}

#[tokio::test]
async fn a_call_may_say_its_hint_its_cost_and_its_template() {
    let (blue, green) = (Server::start("a", Act::Answer).await, Server::start("b", Act::Hang).await);
    let hinted = |server: &Server, hint: &str| {
        server.instance().to_builder().with_metadata("hint", hint).build().unwrap()
    };
    let registry = SimpleDiscovery::new()
        .with_instances("orders", [hinted(&blue, "blue"), hinted(&green, "green")])
        .unwrap();
    let properties = Properties::default().set("configurations", "hint").unwrap();
    let templates = Templates::default();
    let balancers =
        LoadBalancers::builder(registry).properties(properties).lifecycle(templates.clone()).build().unwrap();
    let client = EchoClient::new(balancers.tonic("orders"));

    for _ in 0..4 {
        client.clone().say(with(CallOptions::default().with_hint("blue"))).await.unwrap();
    }
    assert_eq!((blue.served(), green.served()), (4, 0));

    let costly = CallOptions::default().with_hint("green").with_cost(500).with_template("/say");
    let mut caller = client.clone();
    let call = tokio::spawn(async move { caller.say(with(costly)).await.map(drop) });
    eventually("the call", || green.served() == 1).await;
    assert_eq!(balancers.in_flight(), 500);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!((blue.served(), balancers.in_flight()), (4, 0));

    let templates = templates.0.lock().unwrap();
    assert_eq!(templates.last().unwrap().as_deref(), Some("/say"));
    assert!(
        templates[0].as_deref().unwrap().starts_with('/') && templates[0] != templates[4],
        "{templates:?}"
    );
}
