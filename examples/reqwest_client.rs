//! The reqwest client against real servers on loopback: who answers, what is retried, where a redirect leads, a user who
//! stays with one server, and what an error says.
//!
//! `cargo run --features reqwest --example reqwest_client` - ends by itself; exit code 1 if something is not as it should be.

mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::client::reqwest::{Client, CookieStore, RedirectedFrom, SetInstanceCookie, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::Url;
use reqwest::cookie::{CookieStore as _, Jar};
use reqwest::header::HeaderValue;
use support::Server;
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error>>;

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
    let (north, south, west) =
        (Server::start("north").await?, Server::start("south").await?, Server::start("west").await?);
    let shop = redirecting("lb://orders/api/42").await?;
    let all = [&north, &south, &west];
    let orders: Vec<_> =
        all.iter().map(|server| instance(&server.name, server.address)).collect::<Result<_, _>>()?;
    let registry = SimpleDiscovery::new()
        .with_instances("orders", orders)?
        .with_instances("shop", [instance("shop", shop)?])?;
    let properties = Properties::default()
        .set("configurations", "request-based-sticky-session")?
        .set("retry.retryable-status-codes", "503")?
        // A machine that stands still for a moment is no server that is down.
        .set("connect-timeout", "20s")?;
    let balancers = LoadBalancers::from_properties(properties, registry.clone())?;
    let http = balancers.reqwest(|_instance| reqwest::Client::builder())?;

    println!("Three servers of `orders` on loopback: north, south and west.");
    let mut wrong = 0;
    println!("\n1. 300 GETs of lb://orders/api/42");
    wrong += shares(&http).await;
    println!("\n2. south answers its next 20 requests with 503");
    wrong += refused(&http, &south).await;
    println!("\n3. A redirect of lb://shop to lb://orders/api/42");
    wrong += redirected(&http).await?;
    println!("\n4. A user with cookies, whose server is killed in the middle");
    wrong += sticky(&http, &all).await?;
    println!("\n5. Another one is killed under load");
    wrong += killed(&http, &all).await;
    println!("\n6. The last one is killed, too");
    for server in all {
        kill(server).await?;
    }
    wrong += nobody(&http).await;
    println!("\n7. A new one takes their place");
    let east = Server::start("east").await?;
    registry.set(&ServiceId::new("orders")?, [instance("east", east.address)?]);
    wrong += back(&http).await;

    let left = balancers.in_flight();
    println!("\n   {left} calls in flight at the end.");
    balancers.shutdown().await;
    Ok(wrong + u32::from(left != 0))
}

fn instance(id: &str, address: std::net::SocketAddr) -> Outcome<ServiceInstance> {
    Ok(ServiceInstance::builder(address.ip().to_string()).port(address.port()).id(id).build()?)
}

/// A server that sends everybody somewhere else.
async fn redirecting(location: &'static str) -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(move |_: hyper::Request<Incoming>| async move {
                let mut response = hyper::Response::new(Empty::<Bytes>::new());
                *response.status_mut() = hyper::StatusCode::SEE_OTHER;
                response.headers_mut().insert("location", HeaderValue::from_static(location));
                Ok::<_, Infallible>(response)
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

/// Kills it, and waits until nobody listens there any more.
async fn kill(server: &Server) -> Outcome<()> {
    server.kill();
    for _ in 0..1_000 {
        if TcpStream::connect(server.address).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(format!("{} does not die", server.name).into())
}

/// One GET; who answered, after how many attempts.
async fn get(http: &Client, url: &str) -> Result<Via, String> {
    let response = http.get(url).send().await.map_err(|error| error.to_string())?;
    let via = response.extensions().get::<Via>().cloned().ok_or("the response names no instance")?;
    let status = response.status();
    let body = response.text().await.map_err(|error| error.to_string())?;
    if status.is_success() && body.trim() == format!("hello from {}", via.instance().id()) {
        Ok(via)
    } else {
        Err(format!("{status} {body:?} from {}", via.instance()))
    }
}

const ORDERS: &str = "lb://orders/api/42";

/// So many GETs, one after the other: who answered how often, how many attempts that took, and what failed.
async fn gets(http: &Client, n: u32) -> (BTreeMap<String, u32>, u32, Vec<String>) {
    let (mut answered, mut attempts, mut failed) = (BTreeMap::new(), 0, Vec::new());
    for _ in 0..n {
        match get(http, ORDERS).await {
            Ok(via) => {
                *answered.entry(via.instance().id().to_owned()).or_default() += 1;
                attempts += via.attempts();
            }
            Err(error) => failed.push(error),
        }
    }
    for error in failed.iter().take(3) {
        println!("   failed: {error}");
    }
    (answered, attempts, failed)
}

/// Says it, and counts it if it is not as it should be.
fn check(holds: bool, what: &str) -> u32 {
    println!("   {what}{}", if holds { "" } else { "  <- wrong" });
    u32::from(!holds)
}

async fn shares(http: &Client) -> u32 {
    let (answered, attempts, failed) = gets(http, 300).await;
    let text = answered.iter().map(|(id, n)| format!("{id} {n}")).collect::<Vec<_>>().join(", ");
    let even = answered.len() == 3 && answered.values().all(|n| *n == 100);
    check(
        even && failed.is_empty(),
        &format!("answered: {text}; {attempts} attempts, {} failed", failed.len()),
    )
}

async fn refused(http: &Client, south: &Server) -> u32 {
    south.refuse_next(20);
    let (answered, attempts, failed) = gets(http, 90).await;
    let retried = attempts.saturating_sub(answered.values().sum());
    let text = format!("90 calls, {retried} of them repeated on another server, {} failed", failed.len());
    check(retried == 20 && failed.is_empty(), &text)
}

async fn redirected(http: &Client) -> Outcome<u32> {
    let mut wrong = 0;
    for _ in 0..3 {
        // A 303 makes a GET of it.
        let response = http.post("lb://shop/checkout").body("a basket").send().await?;
        let from = response.extensions().get::<RedirectedFrom>().cloned().ok_or("it was not redirected")?;
        let via = response.extensions().get::<Via>().cloned().ok_or("the response names no instance")?;
        let text = format!("{} -> {ORDERS} -> {}, {}", from.urls()[0], response.url(), via.instance().id());
        wrong += check(response.text().await? == format!("hello from {}\n", via.instance().id()), &text);
    }
    Ok(wrong)
}

/// The cookies of one user, in reqwest's own jar.
#[derive(Debug, Default)]
struct Cookies(Jar);

impl CookieStore for Cookies {
    fn set_cookies(&self, lines: &mut dyn Iterator<Item = &HeaderValue>, url: &Url) {
        self.0.set_cookies(lines, url);
    }
    fn cookies(&self, url: &Url) -> Option<HeaderValue> {
        self.0.cookies(url)
    }
}

async fn sticky(http: &Client, all: &[&Server; 3]) -> Outcome<u32> {
    // The response tells the instance in a cookie, and the store brings it back.
    let user = http.with_response_hook(SetInstanceCookie::default()).with_cookies(Cookies::default());
    let (before, _, mut failed) = gets(&user, 10).await;
    let home = before.keys().next().ok_or("nobody answered")?;
    println!("   ten calls: all by {home}; now it is killed");
    for server in all.iter().filter(|server| server.name == *home) {
        kill(server).await?;
    }
    let (after, attempts, more) = gets(&user, 10).await;
    failed.extend(more);
    let text = format!(
        "ten more: all by {}, {} repeated, {} failed",
        after.keys().cloned().collect::<Vec<_>>().join(" and "),
        attempts.saturating_sub(10),
        failed.len()
    );
    Ok(check(before.len() == 1 && after.len() == 1 && !after.contains_key(home) && failed.is_empty(), &text))
}

async fn killed(http: &Client, all: &[&Server; 3]) -> u32 {
    let alive = Arc::new(AtomicU64::new(0));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let (http, done) = (http.clone(), Arc::clone(&alive));
        workers.push(tokio::spawn(async move {
            let (mut attempts, mut errors) = (0, Vec::new());
            for _ in 0..200 {
                match get(&http, ORDERS).await {
                    Ok(via) => attempts += via.attempts(),
                    Err(error) => errors.push(error),
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            (attempts, errors)
        }));
    }
    // In the middle of it: whoever of the two has served last is still there.
    while alive.load(Ordering::Relaxed) < 200 {
        tokio::task::yield_now().await;
    }
    let before: Vec<u64> = all.iter().map(|server| server.served()).collect();
    while alive.load(Ordering::Relaxed) < 300 {
        tokio::task::yield_now().await;
    }
    let victim =
        all.iter().zip(before).find(|(server, before)| server.served() > *before).map(|(server, _)| server);
    let Some(victim) = victim else { return check(false, "nobody was left to be killed") };
    victim.kill();
    let (mut attempts, mut errors) = (0, Vec::new());
    for worker in workers {
        match worker.await {
            Ok((made, failed)) => {
                attempts += made;
                errors.extend(failed);
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    for error in errors.iter().take(3) {
        println!("   failed: {error}");
    }
    let repeated = attempts.saturating_sub(800);
    let text = format!(
        "800 calls, {} was killed, {repeated} repeated on the other one, {} failed",
        victim.name,
        errors.len()
    );
    check(errors.is_empty(), &text)
}

async fn nobody(http: &Client) -> u32 {
    match http.get(ORDERS).send().await {
        Ok(response) => check(false, &format!("{} was answered", response.url())),
        Err(error) => {
            let tried = error.tried().len();
            println!("   {error}");
            check(
                tried > 0 && error.to_string().contains("\"orders\""),
                &format!("the error names {tried} server(s)"),
            )
        }
    }
}

async fn back(http: &Client) -> u32 {
    // The registry has told it by now, or will in a moment.
    for attempt in 1..=1_000 {
        if let Ok(via) = get(http, ORDERS).await {
            return check(
                via.instance().id() == "east",
                &format!("{} answers, after {attempt} call(s)", via.instance()),
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    check(false, "it never answered")
}
