//! Reports of load in the head of an answer, and in its trailers.

use super::net::*;
use evenkeel::LoadBalancers;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use tonic::{Code, Status};

const REPORT: &str = "endpoint-load-metrics";

/// What the state of the one instance knows of its processors after a call.
async fn heard(act: Act) -> Option<f64> {
    let server = Server::start("a", act).await;
    let registry = SimpleDiscovery::new().with_instances("orders", [server.instance()]).unwrap();
    let properties = Properties::default().set_for("orders", "policy", "adaptive").unwrap();
    let balancers = LoadBalancers::from_properties(properties, registry).unwrap();
    let mut client = EchoClient::new(balancers.tonic("orders"));
    if let Ok(answer) = client.list(word("x")).await {
        let mut words = answer.into_inner();
        while let Ok(Some(_)) = words.message().await {}
    }
    let list = balancers.get("orders").unwrap().snapshot().unwrap();
    let state = list.instances().next().unwrap();
    state.statistics().unwrap().reported_cpu()
}

fn reporting(code: Code, cpu: &str) -> Status {
    let mut status = Status::new(code, "");
    status.metadata_mut().insert(REPORT, format!("TEXT cpu_utilization={cpu}").parse().unwrap());
    status
}

#[tokio::test]
async fn a_policy_hears_how_loaded_its_instances_are() {
    assert_eq!(heard(Act::Answer).await, None);
    // In the trailers of a good answer, of a bad one, and in the head of one that is nothing but a status.
    assert_eq!(heard(Act::Then(reporting(Code::Ok, "0.5"))).await, Some(0.5));
    assert_eq!(heard(Act::Then(reporting(Code::Aborted, "0.25"))).await, Some(0.25));
    assert_eq!(heard(Act::Status(reporting(Code::Unavailable, "0.75"))).await, Some(0.75));
}
