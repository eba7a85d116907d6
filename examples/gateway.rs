//! A gateway in front of servers on loopback, with the routes of a Spring application: paths, weights, a websocket, errors, a
//! killed server, a drain.
//!
//! `cargo run --features gateway --example gateway` - ends by itself; exit code 1 if something is not as it should be.
//! `... --example gateway -- --listen 127.0.0.1:8080` keeps it serving, for `wrk` or a browser.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::LoadBalancers;
use evenkeel::ServiceInstance;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::gateway::{Gateway, GatewayHandle};
use futures_util::{SinkExt, StreamExt};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;

type Outcome<T> = Result<T, Box<dyn Error>>;

const APPLICATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/gateway/application.yml");

/// Longer than a machine stalls.
const LONG: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run().await,
        ["--listen"] => listen("127.0.0.1:8080").await,
        ["--listen", address] => listen(address).await,
        _ => Err("usage: gateway [--listen [address]]".into()),
    };
    match done {
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

/// A server that answers with its name and what it was asked.
struct Backend {
    name: &'static str,
    address: SocketAddr,
    served: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Backend {
    async fn start(name: &'static str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, served) = (listener.local_addr()?, Arc::<AtomicU64>::default());
        let counted = Arc::clone(&served);
        let task = tokio::spawn(async move {
            // Dropped with the task: every connection breaks at once, as when a process is killed.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = Arc::clone(&counted);
                let service = service_fn(move |request| {
                    served.fetch_add(1, Ordering::Relaxed);
                    answer(name, request)
                });
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(TokioIo::new(stream), service));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { name, address, served, task })
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// A websocket that says everything twice.
    async fn chat() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                    while let Some(Ok(Message::Text(text))) = socket.next().await {
                        if socket.send(Message::text(format!("{text} {text}"))).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(Self { name: "chat-1", address, served: Arc::default(), task })
    }

    fn instance(&self) -> Outcome<ServiceInstance> {
        Ok(ServiceInstance::builder("127.0.0.1").port(self.address.port()).id(self.name).build()?)
    }
}

async fn answer(
    name: &str,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    if request.uri().path().ends_with("/wait") {
        tokio::time::sleep(Duration::from_millis(500)).await;
    } else if request.uri().path().starts_with("/slow") {
        std::future::pending::<()>().await;
    }
    let of = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
    let (order, host) = (of("x-order"), of("x-forwarded-host"));
    let text = format!("{name} {} {} order={order} host={host}", request.method(), request.uri());
    Ok(hyper::Response::new(Full::new(text.into())))
}

/// The servers, and the gateway in front of them.
struct Setting {
    orders: [Backend; 2],
    others: Vec<Backend>,
    balancers: LoadBalancers,
    gateway: Gateway,
}

impl Setting {
    async fn start() -> Outcome<Self> {
        let orders = [Backend::start("orders-1").await?, Backend::start("orders-2").await?];
        let mut others = Vec::new();
        for name in ["catalog-1", "catalog-next-1", "slow-1"] {
            others.push(Backend::start(name).await?);
        }
        others.push(Backend::chat().await?);
        let mut registry = SimpleDiscovery::new()
            .with_instances("orders", [orders[0].instance()?, orders[1].instance()?])?;
        for backend in &others {
            registry = registry.with_instances(backend.name.trim_end_matches("-1"), [backend.instance()?])?;
        }
        let properties = Properties::load(APPLICATION)?;
        let balancers = LoadBalancers::from_properties(properties.clone(), registry)?;
        // Seeded, so that every run draws the same.
        let gateway = Gateway::builder(balancers.clone()).properties(&properties)?.seed(7).build();
        Ok(Self { orders, others, balancers, gateway })
    }
}

async fn listen(address: &str) -> Outcome<u32> {
    let setting = Setting::start().await?;
    let handle = setting.gateway.serve(TcpListener::bind(address).await?)?;
    let address = handle.address();
    println!("serving on http://{address} until it is killed; for instance:\n");
    println!("  curl -i http://{address}/api/orders/42");
    println!("  wrk -t2 -c64 -d10s http://{address}/catalog/x");
    for backend in setting.orders.iter().chain(&setting.others) {
        println!("  {:<15} http://{}  (without the gateway)", backend.name, backend.address);
    }
    std::future::pending::<()>().await;
    drop(handle);
    Ok(0)
}

async fn run() -> Outcome<u32> {
    let setting = Setting::start().await?;
    let handle = setting.gateway.serve(TcpListener::bind("127.0.0.1:0").await?)?;
    let base = format!("http://{}", handle.address());
    let http = reqwest::Client::builder().no_proxy().timeout(LONG).build()?;
    println!(
        "evenkeel gateway: {} routes of a Spring application, servers on loopback\n",
        setting.gateway.routes().ids().count()
    );

    println!("1. Paths, rewrites, and what has no answer");
    let mut wrong = paths(&http, &base).await?;
    println!("\n2. Two routes share the catalogue, 8 to 2");
    wrong += weights(&http, &base).await?;
    println!("\n3. A websocket through the gateway");
    wrong += websocket(handle.address(), &setting.balancers).await?;
    println!("\n4. orders-1 is killed under load");
    wrong += kill_under_load(&http, &base, &setting.orders).await;
    println!("\n5. The gateway is drained while a request is on its way");
    wrong += drain(&http, &base, handle, &setting.balancers).await?;
    setting.balancers.shutdown().await;
    Ok(wrong)
}

/// A request, the status that it should get, and how the answer begins.
const PATHS: [(&str, &str, u16, &str); 8] = [
    ("GET", "/api/orders/42?x=%20", 200, "orders-1 GET /orders/42?x=%20 order=42"),
    ("POST", "/api/orders", 200, "orders-2 POST /orders"),
    ("GET", "/old/a%2Fb", 200, "orders-1 GET /orders/a%2Fb"),
    ("DELETE", "/api/orders/42", 404, "Not Found"),
    ("GET", "/nowhere", 404, "Not Found"),
    ("GET", "/reports", 503, "Service Unavailable"),
    ("GET", "/slow/report", 504, "Gateway Timeout"),
    ("GET", "/old/%2e%2e/secret", 400, "Bad Request"),
];

async fn paths(http: &reqwest::Client, base: &str) -> Outcome<u32> {
    println!("\n   request                        status   answer");
    let mut wrong = 0;
    for (method, path, wanted, begins) in PATHS {
        // A client of its own would resolve the dots before it sends them.
        let (status, text) = if path.contains("%2e") {
            raw(base, path).await?
        } else {
            let response = http.request(method.parse()?, format!("{base}{path}")).send().await?;
            (response.status().as_u16(), response.text().await?)
        };
        let error = serde_json::from_str::<serde_json::Value>(&text).ok();
        let error = error.and_then(|body| body["error"].as_str().map(str::to_owned));
        let answer = error.unwrap_or(text);
        let off = status != wanted || !(answer.starts_with(begins) || same_but_for_the_turn(&answer, begins));
        wrong += u32::from(off);
        let request = format!("{method} {path}");
        println!("   {request:<30} {status:>5}    {answer}{}", if off { "  <- off" } else { "" });
    }
    Ok(wrong)
}

/// Whichever of the two answers first: round robin begins anywhere.
fn same_but_for_the_turn(answer: &str, begins: &str) -> bool {
    let plain = |text: &str| text.replacen("orders-1", "orders-2", 1);
    plain(answer).starts_with(&plain(begins))
}

/// A request as it stands there.
async fn raw(base: &str, path: &str) -> Outcome<(u16, String)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let host = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    tokio::time::timeout(LONG, stream.read_to_string(&mut text)).await??;
    let status = text.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok((status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}

#[allow(clippy::cast_precision_loss)] // small counts
async fn weights(http: &reqwest::Client, base: &str) -> Outcome<u32> {
    let total = 500;
    let mut counts = BTreeMap::<String, u32>::new();
    for _ in 0..total {
        let text = http.get(format!("{base}/catalog/x")).send().await?.text().await?;
        *counts.entry(text.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    println!("\n   instance          expected     got");
    let mut wrong = 0;
    for (name, expected) in [("catalog-1", 0.8), ("catalog-next-1", 0.2)] {
        let got = f64::from(counts.get(name).copied().unwrap_or_default()) / f64::from(total);
        // Draws, not turns: a tenth of the whole is more than five standard deviations.
        let off = (got - expected).abs() > 0.1;
        wrong += u32::from(off);
        println!(
            "   {name:<16} {:>7.1} %  {:>5.1} %{}",
            expected * 100.0,
            got * 100.0,
            if off { "  <- off" } else { "" }
        );
    }
    Ok(wrong)
}

async fn websocket(address: SocketAddr, balancers: &LoadBalancers) -> Outcome<u32> {
    let stream = TcpStream::connect(address).await?;
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/chat"), stream).await?;
    socket.send(Message::text("ahoy")).await?;
    let answer = tokio::time::timeout(LONG, socket.next()).await?.ok_or("the websocket ended")??;
    let open = balancers.in_flight();
    drop(socket);
    let closed = eventually(|| balancers.in_flight() == 0).await;
    println!(
        "   said \"ahoy\", heard {:?}; while it is open the instance has {open} call in flight, afterwards {}.",
        answer.to_text()?,
        balancers.in_flight()
    );
    Ok(u32::from(answer != Message::text("ahoy ahoy") || open != 1 || !closed))
}

async fn kill_under_load(http: &reqwest::Client, base: &str, [victim, other]: &[Backend; 2]) -> u32 {
    let running = Arc::new(AtomicBool::new(true));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (http, running, url) = (http.clone(), Arc::clone(&running), format!("{base}/api/orders/1"));
        tasks.push(tokio::spawn(async move {
            let (mut answered, mut failed) = (BTreeMap::<String, u32>::new(), Vec::new());
            while running.load(Ordering::Relaxed) {
                match http.get(&url).send().await.and_then(reqwest::Response::error_for_status) {
                    Ok(response) => {
                        let text = response.text().await.unwrap_or_default();
                        *answered
                            .entry(text.split(' ').next().unwrap_or_default().to_owned())
                            .or_default() += 1;
                    }
                    Err(error) => failed.push(error.to_string()),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (answered, failed)
        }));
    }
    let before = victim.served();
    let mut wrong = u32::from(!eventually(|| victim.served() > before + 100).await);
    victim.task.abort();
    let then = other.served();
    wrong += u32::from(!eventually(|| other.served() > then + 300).await);
    running.store(false, Ordering::Relaxed);
    let (mut answered, mut failed) = (BTreeMap::<String, u32>::new(), Vec::new());
    for task in tasks {
        match task.await {
            Ok((some, errors)) => {
                for (name, count) in some {
                    *answered.entry(name).or_default() += count;
                }
                failed.extend(errors);
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    for (name, count) in &answered {
        println!("   {name:<10} {count:>6} answers");
    }
    println!("   {} requests failed: what breaks off on one instance is asked of the other.", failed.len());
    for error in failed.iter().take(3) {
        println!("   failed: {error}");
    }
    wrong + u32::from(!failed.is_empty() || answered.len() != 2)
}

async fn drain(
    http: &reqwest::Client,
    base: &str,
    handle: GatewayHandle,
    balancers: &LoadBalancers,
) -> Outcome<u32> {
    let sent = tokio::spawn(http.get(format!("{base}/catalog/wait")).send());
    let began = eventually(|| balancers.in_flight() == 1).await;
    let drained = handle.shutdown(LONG).await;
    let status = sent.await??.status();
    let closed = http.get(format!("{base}/catalog/x")).send().await.is_err();
    println!(
        "   the request in flight got {status}; {} connections were cut, and nobody gets in any more: {closed}.",
        drained.cut
    );
    Ok(u32::from(!began || !status.is_success() || !drained.is_complete() || !closed))
}

/// Waits until it is so; not for ever.
async fn eventually(is_so: impl Fn() -> bool) -> bool {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.is_ok()
}
