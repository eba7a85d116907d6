//! Calls of gRPC over real servers on loopback: who answers, a dead endpoint beside tonic's own balancing, and servers that
//! are killed under load, without retries and with them.
//!
//! `cargo run --features tonic --example grpc_client` - no flags, ends by itself; exit code 1 if something is not as it
//! should be.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel::client::tonic::{BalancedChannel, Via, tried};
use evenkeel::{LoadBalancers, ServiceInstance};
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

type Outcome<T> = Result<T, Box<dyn Error>>;

const WORKERS: usize = 8;

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
    println!("evenkeel over tonic: servers on loopback, called by a generated client (grpc.health.v1)");
    let mut wrong = 0;

    println!("\n1. Three hundred calls to three servers");
    let servers = [Server::start("a")?, Server::start("b")?, Server::start("c")?];
    wrong += shares(&servers).await?;

    println!("\n2. Three hundred calls to two servers and a port where nobody listens");
    wrong += dead_endpoint(&servers[..2]).await?;

    println!("\n3. c is killed under load");
    let [a, b, c] = servers;
    wrong += kill(&[&a, &b], c, false).await?;

    println!("\n4. d is killed under load, and the client may repeat what is UNAVAILABLE");
    wrong += kill(&[&a, &b], Server::start("d")?, true).await?;
    Ok(wrong)
}

/// A server of tonic in a runtime of its own, so that it can be killed as a process is.
struct Server {
    name: &'static str,
    address: SocketAddr,
    /// None once it was killed.
    runtime: Option<Runtime>,
}

impl Server {
    fn start(name: &'static str) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // Its status is SERVING from the start.
        let (_, health) = tonic_health::server::health_reporter();
        runtime.spawn(async move {
            let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?);
            let served =
                tonic::transport::Server::builder().add_service(health).serve_with_incoming(incoming);
            served.await.map_err(std::io::Error::other)
        });
        Ok(Self { name, address, runtime: Some(runtime) })
    }

    fn instance(&self) -> Outcome<ServiceInstance> {
        Ok(at(self.address, self.name)?)
    }

    /// As `kill -9`: the port is closed and every connection broken.
    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn at(address: SocketAddr, id: &str) -> Result<ServiceInstance, evenkeel::InvalidInstance> {
    ServiceInstance::builder(address.ip().to_string()).port(address.port()).id(id).build()
}

fn channel(instances: Vec<ServiceInstance>) -> Outcome<BalancedChannel> {
    // The machine may stall; a port that refuses does so at once.
    let patience = Duration::from_secs(10);
    Ok(LoadBalancers::fixed([("orders", instances)])?.tonic("orders").connect_timeout(patience))
}

/// One call; who answered, after how many attempts.
async fn call(client: &mut HealthClient<BalancedChannel>) -> Result<(String, u32), Status> {
    let answer = client.check(HealthCheckRequest::default()).await?;
    let via = answer.extensions().get::<Via>();
    let via = via.ok_or_else(|| Status::internal("the answer names no instance"))?;
    Ok((via.instance().id().to_owned(), via.attempts()))
}

async fn shares(servers: &[Server; 3]) -> Outcome<u32> {
    let instances = servers.iter().map(Server::instance).collect::<Outcome<_>>()?;
    let mut client = HealthClient::new(channel(instances)?);
    let mut answers = BTreeMap::<String, u32>::new();
    for _ in 0..300 {
        *answers.entry(call(&mut client).await?.0).or_default() += 1;
    }
    let mut wrong = 0;
    for (name, count) in &answers {
        wrong += u32::from(*count != 100);
        println!("   {name}  {count:>4}  {}", "#".repeat(usize::try_from(*count / 4)?));
    }
    Ok(wrong + u32::from(answers.len() != 3))
}

async fn dead_endpoint(live: &[Server]) -> Outcome<u32> {
    // Bound, so that nobody else gets it, and nobody listens.
    let dead = tokio::net::TcpSocket::new_v4()?;
    dead.bind("127.0.0.1:0".parse()?)?;
    let mut instances = live.iter().map(Server::instance).collect::<Outcome<Vec<_>>>()?;
    instances.push(at(dead.local_addr()?, "dead")?);
    let endpoints = instances.iter().map(|instance| format!("http://{}", instance.authority()));
    let endpoints = endpoints.map(Endpoint::from_shared).collect::<Result<Vec<_>, _>>()?;

    let mut client = HealthClient::new(channel(instances)?);
    let (mut ours, mut twice) = (Vec::new(), 0);
    for _ in 0..300 {
        match call(&mut client).await {
            Ok((_, attempts)) => twice += u32::from(attempts > 1),
            Err(status) => ours.push(status),
        }
    }
    let mut client = HealthClient::new(Channel::balance_list(endpoints.into_iter()));
    let mut theirs = Vec::new();
    for _ in 0..300 {
        theirs.extend(client.check(HealthCheckRequest::default()).await.err());
    }
    println!("\n   balanced by           answered  failed  went on to another");
    println!("   evenkeel              {:>8}  {:>6}  {twice:>18}", 300 - ours.len(), ours.len());
    println!("   tonic's balance_list  {:>8}  {:>6}  {:>18}", 300 - theirs.len(), theirs.len(), "-");
    for status in ours.iter().take(3) {
        println!("   failed: {status}");
    }
    Ok(u32::from(!ours.is_empty()) + u32::from(twice == 0))
}

/// What the tasks that call have seen.
#[derive(Default)]
struct Load {
    running: AtomicBool,
    answered: AtomicU64,
    by_victim: AtomicU64,
    twice: AtomicU64,
}

impl Load {
    async fn work(&self, mut client: HealthClient<BalancedChannel>, victim: &str) -> Vec<Status> {
        let mut failed = Vec::new();
        while self.running.load(Ordering::Relaxed) {
            match call(&mut client).await {
                Ok((name, attempts)) => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    self.by_victim.fetch_add(u64::from(name == victim), Ordering::Relaxed);
                    self.twice.fetch_add(u64::from(attempts > 1), Ordering::Relaxed);
                }
                Err(status) => failed.push(status),
            }
        }
        failed
    }

    /// Waits until `count` says `least`, at most a generous while.
    async fn reaches(count: &AtomicU64, least: u64) -> bool {
        let start = Instant::now();
        while count.load(Ordering::Relaxed) < least && start.elapsed() < Duration::from_secs(30) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        count.load(Ordering::Relaxed) >= least
    }
}

async fn kill(others: &[&Server], mut victim: Server, retry: bool) -> Outcome<u32> {
    let mut instances = others.iter().map(|server| server.instance()).collect::<Outcome<Vec<_>>>()?;
    instances.push(victim.instance()?);
    let mut channel = channel(instances)?;
    if retry {
        channel = channel.retry([Code::Unavailable], |path| path == "/grpc.health.v1.Health/Check");
    }
    let name = victim.name;
    let load = Arc::new(Load { running: AtomicBool::new(true), ..Load::default() });
    let mut tasks = Vec::new();
    for _ in 0..WORKERS {
        let (load, client) = (Arc::clone(&load), HealthClient::new(channel.clone()));
        tasks.push(tokio::spawn(async move { load.work(client, name).await }));
    }
    let mut went_on = Load::reaches(&load.by_victim, 200).await;
    victim.kill();
    went_on &= Load::reaches(&load.answered, load.answered.load(Ordering::Relaxed) + 1_000).await;
    load.running.store(false, Ordering::Relaxed);
    let mut failed = Vec::new();
    for task in tasks {
        failed.extend(task.await?);
    }
    println!(
        "   {} calls were answered, {} of them by another instance after {name} broke off; {} failed.",
        load.answered.load(Ordering::Relaxed),
        load.twice.load(Ordering::Relaxed),
        failed.len()
    );
    for status in failed.iter().take(2) {
        println!("   failed: {:?}: {}", status.code(), status.message());
    }
    // What was on its way to the victim may have been worked on: without a word of the client it is not repeated. Each worker
    // had one such call, and perhaps one more while the victim went down.
    let allowed = if retry { 0 } else { 2 * WORKERS };
    if !retry && !failed.is_empty() {
        println!(
            "   Those were on their way to {name}, which may have worked on them; whatever was never sent went on."
        );
    }
    let named = failed.iter().all(|status| tried(status).is_some_and(|names| names.contains(name)));
    Ok(u32::from(failed.len() > allowed) + u32::from(!named) + u32::from(!went_on))
}
