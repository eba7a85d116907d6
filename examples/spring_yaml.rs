//! The `application.yml` of a Spring service, run as it is: profiles and placeholders, health checks, sticky sessions, a
//! canary by header, and retries, against real servers on loopback.
//!
//! `cargo run --example spring_yaml` - no flags, ends by itself; exit code 1 if something is not as it should be.

mod support;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::{self, Properties};
use evenkeel::{LoadBalancers, observe};
use support::Server;

type Outcome<T> = Result<T, Box<dyn Error>>;

const APPLICATION: &str = include_str!("spring/application.yml");
const DEMO: &str = include_str!("spring/application-demo.yml");

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => {
            println!("\nEverything went as it should.");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            eprintln!("\n{wrong} thing(s) went wrong, see above.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints whether something is as it should be; 1 if it is not.
fn check(right: bool, what: &str) -> u32 {
    println!("   {} {what}", if right { "ok   " } else { "WRONG" });
    u32::from(!right)
}

async fn run() -> Outcome<u32> {
    let servers = [
        Server::start("one").await?,
        Server::start("two").await?,
        Server::start("three").await?,
        Server::start("canary").await?,
    ];
    let folder = tempfile::tempdir()?;
    let path = write(folder.path(), &servers)?;
    let mut wrong = 0;

    println!("1. What the file means (config::check, for a CI job)\n");
    let checked = config::check(&path)?;
    for warning in &checked.warnings {
        println!("   note: {warning}");
    }
    let properties = Properties::load(&path)?;
    println!();
    for line in properties.report("orders").to_string().lines().filter(|line| !line.contains(" default")) {
        println!("   {line}");
    }

    let balancers = LoadBalancers::configured(properties).lifecycle(Watching).build()?;
    balancers.ready(["orders"], Duration::from_secs(5)).await?;
    let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;

    println!("\n2. Thirty requests to lb://orders");
    let counts = spread(&http, 30, &[]).await?;
    let even = ["one", "two", "three"].iter().all(|name| counts.get(*name) == Some(&10));
    wrong += check(even, &format!("the stable ones in turn, the canary gets none: {counts:?}"));

    println!("\n3. Ten requests with X-Canary: canary, ten with a version that nobody runs");
    let counts = spread(&http, 10, &[("x-canary", "canary")]).await?;
    wrong += check(counts.get("canary") == Some(&10), &format!("all to the canary: {counts:?}"));
    let counts = spread(&http, 10, &[("x-canary", "v9")]).await?;
    wrong += check(!counts.contains_key("canary"), &format!("back to the stable ones: {counts:?}"));

    println!("\n4. Ten requests of a session that lives on two (cookie SHOPSESSION)");
    let counts = spread(&http, 10, &[("cookie", "lang=en; SHOPSESSION=two")]).await?;
    wrong += check(counts.get("two") == Some(&10), &format!("all to two: {counts:?}"));

    println!("\n5. two says 503 to its health check");
    servers[1].set_healthy(false);
    let took =
        until(|| async { !spread(&http, 9, &[]).await.is_ok_and(|counts| counts.contains_key("two")) }).await;
    wrong += check(took.is_some(), &format!("it gets nothing any more, {} later", shown(took)));
    let counts = spread(&http, 6, &[("cookie", "SHOPSESSION=two")]).await?;
    wrong += check(!counts.contains_key("two"), &format!("its session goes on elsewhere: {counts:?}"));
    servers[1].set_healthy(true);
    let took =
        until(|| async { spread(&http, 9, &[]).await.is_ok_and(|counts| counts.contains_key("two")) }).await;
    wrong += check(took.is_some(), &format!("well again, it is back {} later", shown(took)));

    println!("\n6. one answers the next three requests with 503 (retryable-status-codes)");
    servers[0].refuse_next(3);
    let (mut statuses, mut attempts) = (BTreeMap::new(), 0);
    for _ in 0..30 {
        let response = http.get("lb://orders/api/42").send().await?;
        attempts += response.extensions().get::<Via>().map_or(0, Via::attempts);
        *statuses.entry(response.status().as_u16()).or_insert(0) += 1;
    }
    wrong += check(statuses == BTreeMap::from([(200, 30)]), &format!("no caller sees one: {statuses:?}"));
    wrong += check(attempts == 33, &format!("{attempts} attempts for 30 calls"));

    println!("\n7. three is killed");
    servers[2].kill();
    let counts = spread(&http, 30, &[]).await?;
    wrong += check(counts.values().sum::<u32>() == 30, &format!("30 calls, none failed: {counts:?}"));

    balancers.shutdown().await;
    Ok(wrong)
}

/// The two files, with the ports of this run behind the second.
fn write(folder: &Path, servers: &[Server]) -> Outcome<std::path::PathBuf> {
    let mut demo = String::from(DEMO);
    demo += "---\nshop.ports:\n";
    for server in servers {
        demo += &format!("  {}: {}\n", server.name, server.address.port());
    }
    std::fs::write(folder.join("application-demo.yml"), demo)?;
    let path = folder.join("application.yml");
    std::fs::write(&path, APPLICATION)?;
    Ok(path)
}

/// Sends requests with these headers, one after the other; who answered how many.
async fn spread(http: &Client, requests: u32, headers: &[(&str, &str)]) -> Outcome<BTreeMap<String, u32>> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        let request = http.get("lb://orders/api/42");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let text = request.send().await?.error_for_status()?.text().await?;
        *counts.entry(text.trim().trim_start_matches("hello from ").to_owned()).or_insert(0) += 1;
    }
    Ok(counts)
}

/// Waits until something holds, for five seconds at most; how long it took.
async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) -> Option<Duration> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        if holds().await {
            return Some(start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

fn shown(took: Option<Duration>) -> String {
    took.map_or("more than five seconds".to_owned(), |took| format!("{} ms", took.as_millis()))
}

/// Prints what does not go as usual.
#[derive(Debug)]
struct Watching;

impl observe::Lifecycle for Watching {
    fn on_attempt(&self, attempt: &observe::AttemptEnd<'_>) {
        if attempt.outcome.is_failure() {
            println!(
                "         attempt {} on {}: {}",
                attempt.attempt,
                attempt.instance.id(),
                attempt.outcome
            );
        }
    }
}
