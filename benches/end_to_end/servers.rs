//! The child process with the servers.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitCode, Stdio};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Marks the child; its value says what it serves.
pub const CHILD: &str = "EVENKEEL_END_TO_END_SERVES";

/// Servers in a process of their own, which ends with this.
pub struct Servers {
    child: Child,
    pub addresses: Vec<SocketAddr>,
}

impl Servers {
    /// Starts those that `what` names.
    pub fn start(what: &str) -> Self {
        let own = std::env::current_exe().expect("this program");
        let mut child = Command::new(own)
            .env(CHILD, what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its addresses");
        let addresses = line.split_whitespace().map(|one| one.parse().expect("an address")).collect();
        Self { child, addresses }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: serves until its parent is gone.
pub fn serve(what: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let addresses = match what {
        "http" => (0..3).map(|_| http(&runtime)).collect::<Vec<_>>(),
        _ => return ExitCode::FAILURE,
    };
    let line = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    println!("{line}");
    std::io::stdout().flush().expect("the parent");
    // The pipe ends with the parent.
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

pub fn listen(runtime: &Runtime) -> (TcpListener, SocketAddr) {
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// A server of HTTP/1.1 that answers everything with a few words.
fn http(runtime: &Runtime) -> SocketAddr {
    let (listener, address) = listen(runtime);
    runtime.spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let answer = service_fn(|_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(
                        b"{\"id\":42,\"state\":\"paid\"}",
                    ))))
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    address
}
