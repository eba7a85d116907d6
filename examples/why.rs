//! What one sees at night: three servers, of which one breaks in three ways under load, and what status, explain and the log
//! of changes say of each. It ends by itself, with exit code 1 if what they say is not what was broken.
//!
//! `cargo run --example why`

mod support;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::client::reqwest::Client;
use evenkeel::config::{LiveProperties, Override, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::observe::{ChangeKind, ExplainOptions, Explanation, InstanceCondition, InstanceStatus};
use evenkeel::{LoadBalancers, Request, ServiceInstance};
use support::Broken;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How many callers there are, and how long each waits for an answer.
const CALLERS: usize = 8;
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How long one waits for something to be seen: on a busy machine, longer than the second or so that it takes.
const PATIENT: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> ExitCode {
    match tokio::time::timeout(Duration::from_secs(90), night()).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("\nWRONG: {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("\nWRONG: it took longer than 90 s");
            ExitCode::FAILURE
        }
    }
}

async fn night() -> Result<(), Box<dyn Error>> {
    let servers =
        [Broken::start("north").await?, Broken::start("south").await?, Broken::start("west").await?];
    let instance = |server: &Broken| {
        ServiceInstance::builder("127.0.0.1")
            .port(server.address.port())
            .id(&*server.name)
            .zone("eu-1a")
            .build()
    };
    let registry = SimpleDiscovery::new()
        .with_instances("orders", servers.iter().map(instance).collect::<Result<Vec<_>, _>>()?)?;
    let properties = Properties::default().set("policy", "least-request")?.set("connect-timeout", "300ms")?;
    let live = LiveProperties::new(properties);
    let balancers = LoadBalancers::builder(registry).live(live.clone()).build()?;
    let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;

    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut callers = callers(&http, &stop, &failed);
    balancers.ready(["orders"], Duration::from_secs(2)).await?;
    sleep(Duration::from_millis(500)).await;
    heading("1. All is well");
    report(&balancers)?;
    expect(balancers.status("orders")?.verdict == ["ok"], "a service that is well is not called ok")?;

    let [north, south, west] = &servers;
    heading("2. north refuses connections: its process is gone");
    north.refuse().await;
    let seen = until(&balancers, "north", |one| one.state == InstanceCondition::Skipped).await?;
    report(&balancers)?;
    expect(seen.left_ms.is_some_and(|left| left <= 30_000), "a skipped instance has no time left")?;
    let why =
        balancers.explain_with("orders", &Request::EMPTY, ExplainOptions::default().with_picks(1_000))?;
    println!("{why}");
    let of_north =
        why.candidates.iter().find(|one| one.status.id == "north").ok_or("explain does not know north")?;
    expect(of_north.picks <= 1, "explain sends calls to a server that refuses them")?;
    north.serve().await?;
    until(&balancers, "north", |one| one.state == InstanceCondition::InUse).await?;

    heading("3. south answers 503 at once: it looks fast and idle");
    south.fail(true);
    let seen =
        until(&balancers, "south", |one| one.state == InstanceCondition::Failing && one.left_ms.is_some())
            .await?;
    report(&balancers)?;
    expect(seen.load >= seen.in_flight + 16, "its failures do not count as load")?;
    south.fail(false);
    until(&balancers, "south", |one| one.state == InstanceCondition::InUse).await?;

    heading("4. west hangs: it takes calls and never answers");
    // Peak EWMA keeps latencies, and counts the ages of calls in flight: who hangs is seen before it answers.
    live.reload(|now| now.clone().set("policy", "peak-ewma"))?;
    until(&balancers, "west", |one| one.latency_ms.is_some()).await?;
    west.hang(true);
    let seen =
        until(&balancers, "west", |one| one.in_flight > 0 && one.latency_ms.is_some_and(|ms| ms > 400.0))
            .await?;
    report(&balancers)?;
    expect(
        seen.state == InstanceCondition::InUse || seen.state == InstanceCondition::Failing,
        "a hanging server is out",
    )?;
    let picks = |why: &Explanation, id: &str| {
        why.candidates.iter().find(|one| one.status.id == id).map_or(0, |one| one.picks)
    };
    // A machine that stood still made every call look slow, and that is forgotten only slowly: so until it is seen.
    let started = Instant::now();
    let why = loop {
        let why =
            balancers.explain_with("orders", &Request::EMPTY, ExplainOptions::default().with_picks(1_000))?;
        if picks(&why, "west") < picks(&why, "north") || started.elapsed() > PATIENT {
            break why;
        }
        sleep(Duration::from_millis(20)).await;
    };
    println!("{why}");
    expect(picks(&why, "west") < picks(&why, "north"), "explain prefers the server that hangs")?;

    heading("5. What one does: drain west until somebody has looked at it");
    let drain =
        Override::drain_instance("west").lasting(Duration::from_secs(1_800)).because("OPS-17: west hangs");
    let id = balancers.override_with(drain)?;
    let seen = until(&balancers, "west", |one| one.state == InstanceCondition::Draining).await?;
    report(&balancers)?;
    expect(seen.reason.is_some_and(|why| why.contains("OPS-17")), "nobody says why west drains")?;
    west.hang(false);
    expect(balancers.end_override(id), "the override is not there any more")?;

    stop.store(true, Ordering::Relaxed);
    while callers.join_next().await.is_some() {}
    heading("6. What happened, in the order in which it did");
    happened(&balancers)?;
    println!("\n{} calls failed. All that was broken was named.", failed.load(Ordering::Relaxed));
    balancers.drain(Duration::from_secs(1)).await;
    Ok(())
}

/// Calls without a pause until they are told to stop.
fn callers(http: &Client, stop: &Arc<AtomicBool>, failed: &Arc<AtomicU64>) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (http, stop, failed) = (http.clone(), Arc::clone(stop), Arc::clone(failed));
        callers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let well = match http.get("lb://orders/api/42").timeout(PATIENCE).send().await {
                    Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
                    Err(_) => false,
                };
                failed.fetch_add(u64::from(!well), Ordering::Relaxed);
                sleep(Duration::from_millis(2)).await;
            }
        });
    }
    callers
}

/// Prints the log of changes; an error if it lacks one of those that were made.
fn happened(balancers: &LoadBalancers) -> Result<(), Box<dyn Error>> {
    let changes = balancers.change_log("orders")?;
    for change in &changes {
        println!("{change}");
    }
    for (kind, who) in [
        (ChangeKind::Listed, None),
        (ChangeKind::ConfigApplied, None),
        (ChangeKind::Skipped, Some("north")),
        (ChangeKind::Back, Some("north")),
        (ChangeKind::Failing, Some("south")),
        (ChangeKind::Well, Some("south")),
        (ChangeKind::OverrideSet, None),
        (ChangeKind::OverrideEnded, None),
    ] {
        let noted = changes.iter().any(|change| {
            let instance = change.instance.as_deref().unwrap_or_default();
            change.kind == kind && who.is_none_or(|who: &str| instance.starts_with(who))
        });
        expect(noted, &format!("{kind} of {} is not in the log of changes", who.unwrap_or("the service")))?;
    }
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text} {}\n", "=".repeat(90_usize.saturating_sub(text.len())));
}

fn report(balancers: &LoadBalancers) -> Result<(), Box<dyn Error>> {
    println!("{}", balancers.status("orders")?);
    Ok(())
}

fn expect(holds: bool, else_: &str) -> Result<(), Box<dyn Error>> {
    if holds { Ok(()) } else { Err(else_.into()) }
}

/// The line of an instance, once it is so; waits at most for [`PATIENT`].
async fn until(
    balancers: &LoadBalancers,
    id: &str,
    holds: impl Fn(&InstanceStatus) -> bool,
) -> Result<InstanceStatus, Box<dyn Error>> {
    let started = Instant::now();
    loop {
        let status = balancers.status("orders")?;
        let found = status.instances.iter().find(|one| one.id == id).cloned();
        match found {
            Some(one) if holds(&one) => return Ok(one),
            _ if started.elapsed() > PATIENT => {
                return Err(format!("{id} is not seen to be what it is:\n{status}").into());
            }
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
}
