//! Tower and hyper over real servers on loopback: who answers, a server that is killed under load, what is retried and what
//! is not, a stack of layers in which every attempt is seen, and what an error says.
//!
//! `cargo run --features tower --example tower_client` - no flags, ends by itself; exit code 1 if something is not as it
//! should be.

mod support;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::client::Via;
use evenkeel::client::tower::{HyperClient, Picked, Returning};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioExecutor;
use support::Server;
use tower::{ServiceBuilder, ServiceExt};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Client = HyperClient<Full<Bytes>>;

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
    let mut servers =
        vec![Server::start("north").await?, Server::start("east").await?, Server::start("west").await?];
    let registry = SimpleDiscovery::new().with_instances("orders", instances(&servers)?)?;
    let properties = Properties::default().set("retry.retryable-status-codes", 503)?;
    let balancers = LoadBalancers::from_properties(properties, registry.clone())?;
    balancers.ready(["orders"], Duration::from_secs(10)).await?;

    println!("evenkeel with tower and hyper: three HTTP servers on loopback\n");
    println!("  | let http = balancers.hyper();");
    println!("  | http.request(Request::get(\"lb://orders/api/42\").body(body)?).await?\n");
    let http: Client = balancers.hyper();

    println!("1. 300 calls, one after the other");
    let mut wrong = shares(&http).await?;

    println!("\n2. north is killed under load");
    wrong += kill_under_load(&http, &servers[0]).await;

    println!("\n3. It leaves the list, and south joins");
    servers.remove(0);
    servers.push(Server::start("south").await?);
    registry.set(&ServiceId::new("orders")?, instances(&servers)?);
    wrong += join(&http, servers.last().ok_or("no server")?).await?;

    println!("\n4. What is sent again: a server is busy, and answers the next request with 503");
    wrong += busy(&http, &servers).await?;

    println!(
        "\n5. A stack of one's own: retry outside, balance inside, and a layer between them that sees every attempt"
    );
    println!("\n  | ServiceBuilder::new()");
    println!("  |     .layer(balancers.retry_layer())");
    println!("  |     .map_request(|attempt| ...)");
    println!("  |     .layer(balancers.balance_layer())");
    println!("  |     .service(hyper_client)\n");
    wrong += stack(&balancers, &servers).await?;

    println!("\n6. All of them are killed: what the error says");
    wrong += nobody(&http, &servers).await;
    let left = balancers.drain(Duration::from_secs(5)).await;
    println!("\n{left} calls are in flight at the end.");
    Ok(wrong + u32::from(left > 0))
}

fn instances(servers: &[Server]) -> Outcome<Vec<ServiceInstance>> {
    let one = |server: &Server| {
        let address = server.address;
        let builder = ServiceInstance::builder(address.ip().to_string()).port(address.port());
        Ok(builder.id(server.name.as_str()).build()?)
    };
    servers.iter().map(one).collect()
}

fn request(method: Method) -> Outcome<Request<Full<Bytes>>> {
    let body = if method == Method::POST { "a new order" } else { "" };
    Ok(Request::builder().method(method).uri("lb://orders/api/42").body(Full::from(body))?)
}

/// One call whose body is read; its status, and who answered after how many attempts.
async fn call(http: &Client, method: Method) -> Outcome<(u16, Via)> {
    let response = http.request(request(method)?).await?;
    let via = response.extensions().get::<Via>().cloned().ok_or("the response names no instance")?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    if body != format!("hello from {}\n", via.instance().id()) {
        return Err(format!("{body:?} came from {}", via.instance()).into());
    }
    Ok((status, via))
}

async fn shares(http: &Client) -> Outcome<u32> {
    let mut answers = BTreeMap::new();
    for _ in 0..300 {
        let (_, via) = call(http, Method::GET).await?;
        *answers.entry(via.instance().id().to_owned()).or_insert(0_usize) += 1;
    }
    println!();
    for (name, answers) in &answers {
        println!("   {name:<6} {answers:>4}  {}", "#".repeat(answers / 4));
    }
    let even = answers.len() == 3 && answers.values().all(|answers| (95..=105).contains(answers));
    println!("\n   {}", if even { "Each got its share." } else { "The shares are off." });
    Ok(u32::from(!even))
}

/// What the callers saw while a server died.
#[derive(Default)]
struct Load {
    answered: AtomicU64,
    elsewhere: AtomicU64,
    errors: Mutex<Vec<String>>,
}

async fn kill_under_load(http: &Client, victim: &Server) -> u32 {
    let (running, load) = (Arc::new(AtomicBool::new(true)), Arc::<Load>::default());
    let before = victim.served();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (http, running, load) = (http.clone(), Arc::clone(&running), Arc::clone(&load));
            tokio::spawn(async move {
                while running.load(Ordering::Relaxed) {
                    match call(&http, Method::GET).await {
                        Ok((_, via)) => {
                            load.answered.fetch_add(1, Ordering::Relaxed);
                            load.elsewhere.fetch_add(u64::from(via.attempts() > 1), Ordering::Relaxed);
                        }
                        Err(error) => {
                            if let Ok(mut errors) = load.errors.lock() {
                                errors.push(error.to_string());
                            }
                        }
                    }
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
            })
        })
        .collect();
    // By what happened, not by the clock: the machine may be slow.
    until(|| victim.served() > before + 200).await;
    victim.kill();
    let at_death = load.answered.load(Ordering::Relaxed);
    let went_on = until(|| load.answered.load(Ordering::Relaxed) > at_death + 1_000).await;
    running.store(false, Ordering::Relaxed);
    for worker in workers {
        let _ = worker.await;
    }
    let answered = load.answered.load(Ordering::Relaxed);
    let errors = load.errors.lock().map(|errors| errors.clone()).unwrap_or_default();
    println!("\n   answered    {answered:>6}");
    println!(
        "   elsewhere   {:>6}  calls that north broke off or refused, answered by another one",
        load.elsewhere.load(Ordering::Relaxed)
    );
    println!("   failed      {:>6}", errors.len());
    for error in errors.iter().take(3) {
        println!("   failed: {error}");
    }
    u32::from(!errors.is_empty() || !went_on)
}

/// Waits for something to happen, for a minute at most.
async fn until(happened: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !happened() {
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

async fn join(http: &Client, newcomer: &Server) -> Outcome<u32> {
    let mut calls = 0;
    while newcomer.served() == 0 && calls < 10_000 {
        call(http, Method::GET).await?;
        calls += 1;
    }
    println!(
        "\n   south answered after {calls} calls from then on: the choice is made per request, not per connection."
    );
    Ok(u32::from(newcomer.served() == 0))
}

async fn busy(http: &Client, servers: &[Server]) -> Outcome<u32> {
    let mut wrong = 0;
    println!("\n   method  status  attempts  answered by");
    for method in [Method::GET, Method::POST] {
        let busy = &servers[0];
        busy.refuse_next(1);
        let mut seen = None;
        // One of these goes to the busy one first.
        for _ in 0..10 * servers.len() {
            let before = busy.served();
            let (status, via) = call(http, method.clone()).await?;
            if busy.served() > before {
                seen = Some((status, via));
                break;
            }
        }
        let Some((status, via)) = seen else {
            println!("   {method}: the busy one was never asked");
            wrong += 1;
            continue;
        };
        let (attempts, name) = (via.attempts(), via.instance().id());
        println!("   {:<6}  {status:>6}  {attempts:>8}  {name}", method.as_str());
        wrong += u32::from((status, attempts) != if method == Method::GET { (200, 2) } else { (503, 1) });
        busy.refuse_next(0);
    }
    println!(
        "\n   A GET goes on to another one; a POST may have had its effect, so its caller gets the 503 as it is."
    );
    Ok(wrong)
}

async fn stack(balancers: &LoadBalancers, servers: &[Server]) -> Outcome<u32> {
    let trail = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&trail);
    let hyper = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
    let service = ServiceBuilder::new()
        .layer(balancers.retry_layer().via(true))
        .map_request(move |attempt: Request<Returning<Full<Bytes>>>| {
            let picked = attempt.extensions().get::<Picked>().map(|picked| picked.instance().id().to_owned());
            if let Ok(mut seen) = seen.lock() {
                seen.extend(picked);
            }
            attempt
        })
        .layer(balancers.balance_layer())
        .service(hyper);
    servers[1].refuse_next(1);
    let mut repeated = 0;
    for number in 1..=4 {
        let response = service.clone().oneshot(request(Method::GET)?).await?;
        let attempts = trail.lock().map(|mut trail| std::mem::take(&mut *trail)).unwrap_or_default();
        println!("   call {number}: {} - {}", attempts.join(", then "), response.status());
        let counted = response.extensions().get::<Via>().map(Via::attempts);
        repeated += u32::from(attempts.len() == 2);
        if counted.is_none_or(|counted| counted as usize != attempts.len()) || response.status() != 200 {
            return Ok(1);
        }
    }
    Ok(u32::from(repeated != 1))
}

async fn nobody(http: &Client, servers: &[Server]) -> u32 {
    for server in servers {
        server.kill();
    }
    // Until the last connection is broken, one may still answer.
    let begun = Instant::now();
    let error = loop {
        let called = match request(Method::GET) {
            Ok(request) => http.request(request).await,
            Err(error) => {
                println!("   {error}");
                return 1;
            }
        };
        match called {
            Err(error) if error.failure() == Some(evenkeel::Failure::Connect) => break error,
            _ if begun.elapsed() > Duration::from_secs(60) => return 1,
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    };
    println!("\n   {error}");
    println!("\n   Never sent, so it went once to another one: {} were tried.", error.tried().len());
    u32::from(error.tried().len() != 2)
}
