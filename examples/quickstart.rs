//! Calls spread over real servers on loopback, by a chain that configuration built; and a killed server that no caller
//! notices.
//!
//! `cargo run --example quickstart` - no flags, ends by itself; exit code 1 if a share is off or a call failed.

mod support;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel::client::reqwest::{Client, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, FileDiscovery, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};
use support::Server;

type Outcome<T> = Result<T, Box<dyn Error>>;

const APPLICATION: &str = "\
spring.cloud.loadbalancer:
  configurations: zone-preference, weighted
  zone: eu-1a
  clients:
    orders:
      cache.ttl: 5s
";

/// One instance of the registry file.
struct Entry<'a> {
    server: &'a Server,
    zone: &'a str,
    weight: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => {
            println!("\nEverything went as it should.");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            eprintln!("\n{wrong} check(s) failed, see above.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome<u32> {
    let folder = tempfile::tempdir()?;
    let (registry, application) = (folder.path().join("registry.yml"), folder.path().join("application.yml"));
    let north1 = Server::start("north-1").await?;
    let north2 = Server::start("north-2").await?;
    let south1 = Server::start("south-1").await?;
    let mut entries = vec![
        Entry { server: &north1, zone: "eu-1a", weight: 3 },
        Entry { server: &north2, zone: "eu-1a", weight: 1 },
        Entry { server: &south1, zone: "eu-1b", weight: 2 },
    ];
    write_registry(&registry, &entries)?;
    std::fs::write(&application, APPLICATION)?;

    println!("evenkeel quickstart: three HTTP servers on loopback, a registry file, an application.yml\n");
    for line in APPLICATION.lines() {
        println!("  | {line}");
    }

    let balancers =
        LoadBalancers::from_properties(Properties::load(&application)?, FileDiscovery::new(&registry))?;
    balancers.ready(["orders"], Duration::from_secs(5)).await?;
    let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;

    let mut wrong = 0;
    println!("\n1. A thousand requests to lb://orders, 8 at a time");
    let failed = load(&http, 1_000, 8).await;
    wrong += u32::from(failed > 0);
    wrong += shares(&entries, "eu-1a", failed);

    println!("\n2. north-1 is killed under load");
    wrong += kill_under_load(&http, &north1).await;

    println!("\n3. north-3 takes its place: one line of the registry file goes, another comes");
    let north3 = Server::start("north-3").await?;
    entries.remove(0);
    entries.push(Entry { server: &north3, zone: "eu-1a", weight: 2 });
    wrong += join(&http, &registry, &entries).await?;

    println!("\n4. The same load with the cache on and off, on a registry that must be asked");
    wrong += cache_on_and_off(&registry).await?;

    balancers.shutdown().await;
    Ok(wrong)
}

fn write_registry(path: &Path, entries: &[Entry<'_>]) -> std::io::Result<()> {
    let mut text = String::from("services:\n  orders:\n");
    for Entry { server, zone, weight } in entries {
        text += &format!(
            "    - {{id: {}, host: 127.0.0.1, port: {}, zone: {zone}, metadata: {{weight: {weight}}}}}\n",
            server.name,
            server.address.port()
        );
    }
    // Written beside and renamed over, so that no reader sees a half of it.
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

/// Sends `requests` by `workers` tasks; how many failed.
async fn load(http: &Client, requests: u64, workers: u64) -> u64 {
    let left = Arc::new(AtomicU64::new(requests));
    let mut tasks = Vec::new();
    for _ in 0..workers {
        let (http, left) = (http.clone(), Arc::clone(&left));
        tasks.push(tokio::spawn(async move {
            let mut failed = 0;
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                failed += u64::from(call(&http).await.is_err());
            }
            failed
        }));
    }
    let mut failed = 0;
    for task in tasks {
        failed += task.await.unwrap_or(1);
    }
    failed
}

/// One call; which instance answered, after how many attempts.
async fn call(http: &Client) -> Result<Via, String> {
    let response = http.get("lb://orders/api/42").send().await.map_err(|error| error.to_string())?;
    let via = response.extensions().get::<Via>().cloned().ok_or("the response names no instance")?;
    let body = response.text().await.map_err(|error| error.to_string())?;
    if body.trim() == format!("hello from {}", via.instance().id()) {
        Ok(via)
    } else {
        Err(format!("{body:?} came from {}", via.instance()))
    }
}

#[allow(clippy::cast_precision_loss)] // small counts
fn shares(entries: &[Entry<'_>], own_zone: &str, failed: u64) -> u32 {
    let local = |entry: &&Entry<'_>| entry.zone == own_zone;
    let weights: u32 = entries.iter().filter(local).map(|entry| entry.weight).sum();
    let total: u64 = entries.iter().map(|entry| entry.server.served()).sum();
    println!("\n   instance   zone    weight   expected      got");
    let mut wrong = 0;
    for entry in entries {
        let expected = if local(&entry) { f64::from(entry.weight) / f64::from(weights) } else { 0.0 };
        let got = entry.server.served() as f64 / total.max(1) as f64;
        let off = (got - expected).abs() > 0.01;
        wrong += u32::from(off);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 40
        let bar = "#".repeat((got * 40.0).round() as usize);
        println!(
            "   {:<10} {:<7} {:>6}   {:>7.1} %  {:>5.1} %  {bar}{}",
            entry.server.name,
            entry.zone,
            entry.weight,
            expected * 100.0,
            got * 100.0,
            if off { "  <- off" } else { "" }
        );
    }
    println!("\n   {total} answers, {failed} failed; this client is in {own_zone}, so south-1 gets nothing.");
    wrong
}

async fn kill_under_load(http: &Client, victim: &Server) -> u32 {
    let running = Arc::new(AtomicBool::new(true));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (http, running) = (http.clone(), Arc::clone(&running));
        tasks.push(tokio::spawn(async move {
            let (mut answered, mut twice, mut errors) = (0_u64, 0_u64, Vec::new());
            while running.load(Ordering::Relaxed) {
                match call(&http).await {
                    Ok(via) => {
                        answered += 1;
                        twice += u64::from(via.attempts() > 1);
                    }
                    Err(error) => errors.push(error),
                }
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            (answered, twice, errors)
        }));
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    victim.kill();
    let at_death = victim.served();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    running.store(false, Ordering::Relaxed);
    let (mut answered, mut twice, mut errors) = (0, 0, Vec::new());
    for task in tasks {
        match task.await {
            Ok((a, t, e)) => {
                answered += a;
                twice += t;
                errors.extend(e);
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    println!(
        "   {answered} calls were answered, {twice} of them by another instance after north-1 broke off, {} failed.",
        errors.len()
    );
    println!(
        "   north-1 had answered {at_death}; it is skipped, and one call in a growing while tries it again."
    );
    for error in errors.iter().take(3) {
        println!("   failed: {error}");
    }
    u32::from(!errors.is_empty() || answered == 0)
}

async fn join(http: &Client, registry: &Path, entries: &[Entry<'_>]) -> Outcome<u32> {
    let newcomer = entries.last().ok_or("no entry")?;
    let written = Instant::now();
    write_registry(registry, entries)?;
    let mut errors = 0;
    while newcomer.server.served() == 0 && written.elapsed() < Duration::from_secs(5) {
        errors += u32::from(call(http).await.is_err());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if newcomer.server.served() == 0 {
        println!("   it got no request within 5 s");
        return Ok(1);
    }
    println!("   its first request came {} ms after the file was written.", written.elapsed().as_millis());
    Ok(errors)
}

/// A registry that cannot push: the file source without its watch, with its look-ups counted.
#[derive(Clone, Debug)]
struct Asked {
    file: FileDiscovery,
    look_ups: Arc<AtomicU64>,
}

#[async_trait]
impl DiscoveryClient for Asked {
    fn name(&self) -> &str {
        "file, asked"
    }
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        self.look_ups.fetch_add(1, Ordering::Relaxed);
        self.file.instances(service).await
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        self.file.services().await
    }
}

async fn cache_on_and_off(registry: &Path) -> Outcome<u32> {
    let mut wrong = 0;
    let mut counts = Vec::new();
    for cache in [true, false] {
        let source = Asked { file: FileDiscovery::new(registry), look_ups: Arc::default() };
        let properties = Properties::default()
            .set("configurations", "zone-preference, weighted")?
            .set("zone", "eu-1a")?
            .set("cache.enabled", cache)?;
        let balancers = LoadBalancers::from_properties(properties, source.clone())?;
        let http = balancers.reqwest(|_| reqwest::Client::builder())?;
        let started = Instant::now();
        let failed = load(&http, 1_000, 8).await;
        let look_ups = source.look_ups.load(Ordering::Relaxed);
        println!(
            "   cache {:<3}  {look_ups:>4} look-up{} for 1000 requests in {:>4} ms, {failed} failed",
            if cache { "on" } else { "off" },
            if look_ups == 1 { " " } else { "s" },
            started.elapsed().as_millis()
        );
        wrong += u32::from(failed > 0);
        counts.push(look_ups);
        balancers.shutdown().await;
    }
    Ok(wrong + u32::from(counts[0] != 1 || counts[1] < 100))
}
