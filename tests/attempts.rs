//! First and later attempts of calls that run beside each other.

mod support;

use std::collections::{BTreeMap, HashSet};

use evenkeel::policy::RoundRobin;
use evenkeel::{LoadBalancer, Outcome, Request, Tried};
use support::*;

/// One call, whose next attempt is made when it is told to.
struct Call<'a> {
    lb: &'a LoadBalancer,
    tried: Tried,
    nodes: Vec<String>,
}

impl<'a> Call<'a> {
    fn new(lb: &'a LoadBalancer) -> Self {
        Self { lb, tried: Tried::new(), nodes: Vec::new() }
    }

    /// An attempt, which the node answers so; whether that is a success.
    async fn attempt(&mut self, answer: impl Fn(&str) -> u16) -> bool {
        let choice = self.lb.choose(&Request::EMPTY.with_tried(&self.tried)).await.unwrap();
        let node = choice.instance().id().to_owned();
        let status = answer(&node);
        self.nodes.push(node);
        self.tried.add(&choice);
        choice.complete(Outcome::Status(status));
        status < 500
    }
}

fn over_nodes(ids: &str) -> LoadBalancer {
    over(chain(Live::new(list(ids)).source()), RoundRobin::default())
}

fn fails(_: &str) -> u16 {
    500
}

fn n0_fails(node: &str) -> u16 {
    if node == "n0" { 503 } else { 200 }
}

/// Two nodes that both fail: the first attempts take turns, and the second goes to the other one.
fn parity(calls: &[Vec<String>]) {
    for call in calls {
        assert_eq!(call.len(), 2);
        assert_ne!(call[0], call[1], "{calls:?}");
    }
    let first: Vec<&String> = calls.iter().map(|call| &call[0]).collect();
    assert!(first.windows(2).all(|two| two[0] != two[1]), "{first:?}");
    assert_eq!(count(first, "a"), calls.len() / 2);
}

#[tokio::test(start_paused = true)]
async fn case_022_retries_move_no_first_attempt_of_two_nodes() {
    let lb = over_nodes("a b");
    let mut calls = Vec::new();
    for _ in 0..10 {
        let mut call = Call::new(&lb);
        assert!(!call.attempt(fails).await && !call.attempt(fails).await);
        calls.push(call.nodes);
    }
    parity(&calls);
}

#[tokio::test(start_paused = true)]
async fn case_022_nor_if_two_calls_interleave_their_attempts() {
    let lb = over_nodes("a b");
    let mut calls = Vec::new();
    for _ in 0..5 {
        let (mut one, mut two) = (Call::new(&lb), Call::new(&lb));
        for _ in 0..2 {
            one.attempt(fails).await;
            two.attempt(fails).await;
        }
        calls.extend([one.nodes, two.nodes]);
    }
    parity(&calls);
}

/// Four nodes, the first of which fails: no call tries a node twice, and the others share what succeeds.
fn spread(calls: &[Vec<String>]) {
    let mut successes = BTreeMap::<&str, usize>::new();
    for nodes in calls {
        assert_eq!(nodes.iter().collect::<HashSet<_>>().len(), nodes.len(), "{calls:?}");
        assert!(nodes.len() <= 2 && nodes[..nodes.len() - 1].iter().all(|node| node == "n0"), "{calls:?}");
        *successes.entry(nodes.last().unwrap()).or_default() += 1;
    }
    let counts = ["n1", "n2", "n3"].map(|node| successes.get(node).copied().unwrap_or_default());
    assert_eq!(counts.iter().sum::<usize>(), calls.len());
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 2, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn case_022_no_call_tries_a_node_twice_and_the_others_share_what_succeeds() {
    let lb = over_nodes("n0 n1 n2 n3");
    let mut calls = Vec::new();
    for _ in 0..8 {
        let mut call = Call::new(&lb);
        while !call.attempt(n0_fails).await {}
        calls.push(call.nodes);
    }
    spread(&calls);

    let mut calls = Vec::new();
    for _ in 0..4 {
        let (mut one, mut two) = (Call::new(&lb), Call::new(&lb));
        let (mut first, mut second) = (false, false);
        while !(first && second) {
            first = first || one.attempt(n0_fails).await;
            second = second || two.attempt(n0_fails).await;
        }
        calls.extend([one.nodes, two.nodes]);
    }
    spread(&calls);
}
