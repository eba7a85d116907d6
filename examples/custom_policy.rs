//! A policy of one's own: the instance with the least priority number that fits, and round robin among equals; and
//! what the test kit says of it.
//!
//! `cargo run --example custom_policy` (feature `testkit`)

use std::borrow::Cow;

use evenkeel::policy::{Candidates, PickCx, Picker, Policy, Rotation};
use evenkeel::testkit::{Check, Kit};
use evenkeel::{Failure, LoadBalancer, Outcome, Request, ServiceInstance, SupplierBuilder};

/// Primary instances first; secondary ones only when no primary can be used.
#[derive(Debug)]
struct Primaries;

impl Policy for Primaries {
    fn name(&self) -> Cow<'static, str> {
        "primaries".into()
    }

    /// Runs when the list changes: everything that depends on the list alone is worked out here.
    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let mut tiers: Vec<(u32, Vec<usize>)> = Vec::new();
        for index in 0..set.len() {
            let priority = set.instance(index).priority();
            match tiers.iter_mut().find(|(tier, _)| *tier == priority) {
                Some((_, members)) => members.push(index),
                None => tiers.push((priority, vec![index])),
            }
        }
        tiers.sort_unstable();
        Box::new(Tiers(tiers.into_iter().map(|(_, members)| members).collect()))
    }
}

struct Tiers(Vec<Vec<usize>>);

impl Picker for Tiers {
    /// It keeps nothing of its own, so `explain` may try it out.
    fn rehearses(&self) -> bool {
        true
    }

    /// Runs per request: no lock, no allocation, no clock. An instance that does not fit makes the wheel turn again.
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        self.0.iter().find_map(|members| {
            (0..2 * members.len()).find_map(|_| {
                let turn = usize::try_from(cx.turn()).unwrap_or(0);
                let index = members[turn % members.len()];
                cx.fits(index).then_some(index)
            })
        })
    }

    fn rotation(&self) -> Option<&dyn Rotation> {
        Some(self)
    }
}

/// The order of turns in the first tier, so that they go on after the same instance when the list has changed. Without it, the
/// kit's check of turns finds that a list which changes all the time favours every other instance.
impl Rotation for Tiers {
    fn at(&self, turn: u64) -> usize {
        let members = &self.0[0];
        members[usize::try_from(turn).unwrap_or(0) % members.len()]
    }

    fn turn_of(&self, index: usize) -> Option<u64> {
        self.0[0].iter().position(|member| *member == index).and_then(|at| u64::try_from(at).ok())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let instance = |id: &str, priority| {
        ServiceInstance::builder(format!("{id}.test")).port(80).id(id).priority(priority).build()
    };
    let list = [instance("primary-1", 0)?, instance("primary-2", 0)?, instance("secondary", 1)?];
    let registry = evenkeel::discovery::SimpleDiscovery::new().with_instances("orders", list)?;
    let supplier = SupplierBuilder::new("orders").with_discovery_client(registry).build()?;
    let orders = LoadBalancer::builder(supplier).policy(Primaries).build();

    for step in 0..6 {
        let choice = orders.choose(&Request::EMPTY).await?;
        let instance = choice.instance();
        // Primaries cannot be reached from the third call on.
        if step >= 2 && instance.priority() == 0 {
            println!("{instance} cannot be reached");
            choice.complete(Outcome::Failure(Failure::Connect));
        } else {
            println!("{instance} answers");
            choice.complete(Outcome::Success);
        }
    }

    // The kit's instances all have one priority. What a policy is not meant to do is left out, with the reason.
    println!("\nThe test kit:");
    let mut faults = 0;
    for check in Check::ALL {
        let left_out = match check {
            Check::Weights => Some("it looks at no weight"),
            Check::BrokenServer => Some("it looks at no outcome"),
            _ => None,
        };
        match (Kit::new().check(check, || Primaries), left_out) {
            (_, Some(reason)) => println!("  left out  {check}: {reason}"),
            (Ok(passed), None) => println!("  passed    {passed}"),
            (Err(finding), None) => {
                faults += 1;
                println!("  FAULT     {finding}");
            }
        }
    }
    if faults == 0 { Ok(()) } else { Err(format!("the kit found {faults} faults").into()) }
}
