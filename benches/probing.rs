//! What probing costs a client: `cargo bench --bench probing`, about 70 s.
//!
//! 10 000 instances, every one probed once in 25 s, by TCP and by HTTP. A child process has the servers, on loopback, so
//! that the time of this process is that of the client; what the kernel does for the other end of a loopback connection it
//! partly does in the sender's time, so the figure is too high rather than too low. The child also counts the sockets of this
//! process, a thousand times a second, so that counting costs the client nothing.
//!
//! Time is counted from the end of the first round, which is not spread, to that of the second, and told as a share of 25 s.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use evenkeel::health::{HealthCheck, HealthProbe, HttpProbe, ProbeError, TcpProbe};
use evenkeel::policy::RoundRobin;
use evenkeel::{ServiceInstance, async_trait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use support::bars::{Bars, Limit};

const INSTANCES: usize = 10_000;
/// So many addresses, each of which many instances share: more than the sockets that are allowed, so that a client that
/// keeps one for each address falls short, and few enough for a process to listen on.
const ADDRESSES: usize = 500;
const INTERVAL: Duration = Duration::from_secs(25);
/// The default of [`HealthCheck`].
const SOCKETS: usize = 64;
/// The bound on the share of one core.
const PER_CENT: f64 = 10.0;
/// What marks the child; its value is the process whose sockets are counted.
const CHILD: &str = "EVENKEEL_PROBED_FOR";

fn main() -> ExitCode {
    if let Ok(parent) = std::env::var(CHILD) {
        return serve(&parent);
    }
    let mut bars = Bars::from_args();
    let tcp: (&str, fn() -> Box<dyn HealthProbe>) = ("TCP", || Box::new(TcpProbe::default()));
    let http: (&str, fn() -> Box<dyn HealthProbe>) =
        ("HTTP", || Box::new(HttpProbe::new("/health").expect("a client")));
    for (kind, probe) in [tcp, http] {
        let names = [format!("{kind}: per cent of one core"), format!("{kind}: sockets at the same time")];
        if !names.iter().any(|name| bars.wants(name)) {
            continue;
        }
        let cost = measure(probe());
        bars.exact(&names[0], Limit::AtMost(PER_CENT), || cost.per_cent);
        #[allow(clippy::cast_precision_loss)] // a few
        bars.exact(&names[1], Limit::AtMost(SOCKETS as f64), || cost.sockets as f64);
    }
    bars.exit()
}

struct Cost {
    per_cent: f64,
    sockets: usize,
}

/// Counts the probes that passed.
#[derive(Debug)]
struct Counted(Box<dyn HealthProbe>, Arc<AtomicUsize>);

#[async_trait]
impl HealthProbe for Counted {
    async fn check(&self, instance: &ServiceInstance) -> Result<(), ProbeError> {
        self.0.check(instance).await?;
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn measure(probe: Box<dyn HealthProbe>) -> Cost {
    let mut servers = Servers::start();
    let runtime = support::runtime();
    let passed = Arc::new(AtomicUsize::new(0));
    let check = HealthCheck::new(Counted(probe, Arc::clone(&passed))).with_interval(INTERVAL);
    let chain = support::chain(instances(servers.port)).with_health_checks(check);
    let balancer = support::warm(&runtime, chain, RoundRobin::default());
    reach(&passed, INSTANCES);
    let before = cpu_time();
    reach(&passed, 2 * INSTANCES);
    let used = cpu_time().saturating_sub(before);
    let usable = balancer.snapshot().map_or(0, |snapshot| snapshot.instances().count());
    assert_eq!(usable, INSTANCES, "some failed, and what was measured is something else");
    drop(balancer);
    Cost { per_cent: 100.0 * used.as_secs_f64() / INTERVAL.as_secs_f64(), sockets: servers.most_sockets() }
}

fn address(at: usize, port: u16) -> SocketAddr {
    let part = |n: usize| u8::try_from(n).expect("a part of an address");
    (Ipv4Addr::new(127, 0, part(at / 250), part(at % 250 + 1)), port).into()
}

fn instances(port: u16) -> Vec<ServiceInstance> {
    let one = |n: usize| {
        let host = address(n % ADDRESSES, port).ip().to_string();
        ServiceInstance::builder(host).port(port).id(format!("i-{n:05}")).build().expect("a valid instance")
    };
    (0..INSTANCES).map(one).collect()
}

fn reach(passed: &AtomicUsize, count: usize) {
    let start = Instant::now();
    while passed.load(Ordering::Relaxed) < count {
        assert!(
            start.elapsed() < 4 * INTERVAL,
            "{} of {count} probes passed",
            passed.load(Ordering::Relaxed)
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// What all threads of this process used, in user and in kernel mode.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("a system with /proc");
    // Behind the name of the program, which may hold anything: the 14th and the 15th field of all.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    // Linux shows a hundredth of a second as a tick, on every architecture.
    Duration::from_millis(ticks * 10)
}

// ------------------------------------------------------------------------------------------------------ the child

/// The child process.
struct Servers {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: u16,
}

impl Servers {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .env(CHILD, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut servers = Self { child, lines, port: 0 };
        servers.port = servers.line().try_into().expect("a port");
        servers
    }

    fn line(&mut self) -> usize {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line of the child");
        line.trim().parse().expect("a number")
    }

    /// The most sockets that this process had since the start. Ends the child.
    fn most_sockets(&mut self) -> usize {
        drop(self.child.stdin.take());
        let most = self.line();
        self.child.wait().expect("the child ends");
        most
    }
}

fn serve(parent: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let port = runtime.block_on(listen());
    println!("{port}");
    std::io::stdout().flush().expect("a reader");
    thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, fds) = (Arc::clone(&most), format!("/proc/{parent}/fd"));
    thread::spawn(move || {
        loop {
            seen.fetch_max(sockets(&fds), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
    });
    // Until the parent closes it.
    let _ = std::io::stdin().lines().count();
    println!("{}", most.load(Ordering::Relaxed));
    ExitCode::SUCCESS
}

fn sockets(fds: &str) -> usize {
    let Ok(entries) = fs::read_dir(fds) else { return 0 };
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    entries.flatten().filter(is_socket).count()
}

/// Listens on all addresses, at one port.
async fn listen() -> u16 {
    let mut port = 0;
    for at in 0..ADDRESSES {
        let listener = TcpListener::bind(address(at, port)).await.expect("a loopback address");
        port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream));
            }
        });
    }
    port
}

/// Answers every request, and keeps the connection as long as the client does.
async fn answer(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut bytes).await {
        if bytes.ends_with(b"\r\n\r\n") {
            bytes.clear();
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.is_err() {
                return;
            }
        }
    }
}
