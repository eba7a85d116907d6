//! Servers of raw TCP: they keep every head that they read and answer with the bytes that a test gives.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::client::reqwest::Client;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::{LoadBalancers, ServiceInstance};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// What a server does with a request.
#[derive(Clone)]
pub enum Act {
    /// These bytes, and the next request.
    Answer(String),
    /// Nothing, for ever.
    Hang,
    /// The connection breaks.
    Break,
    /// What the function says for the number of the request, from 1.
    By(Arc<dyn Fn(usize) -> Act + Send + Sync>),
    /// What the function says for the target of the request.
    On(Arc<dyn Fn(&str) -> Act + Send + Sync>),
    /// These bytes; when notified those; then the connection ends.
    Parts(&'static str, Arc<Notify>, &'static str),
}

pub fn by(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> Act {
    Act::By(Arc::new(act))
}

pub fn on(act: impl Fn(&str) -> Act + Send + Sync + 'static) -> Act {
    Act::On(Arc::new(act))
}

/// An answer with this status.
pub fn status(status: u16, body: &str) -> Act {
    Act::Answer(format!(
        "HTTP/1.1 {status} -\r\nx-from: server\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A redirect.
pub fn redirect(status: u16, location: impl std::fmt::Display) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} -\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
}

pub fn ok(body: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// What was read, request by request.
#[derive(Default)]
struct Seen {
    heads: Vec<String>,
    bodies: Vec<Vec<u8>>,
}

pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
    /// Bound to the same port, and never listening: a server that was killed refuses, and nobody else gets its port, as a
    /// server of another test might that never answers.
    _port: Option<TcpSocket>,
}

impl Server {
    pub async fn start(act: Act) -> Self {
        Self::at("127.0.0.1:0", act).await.unwrap()
    }

    pub async fn at(address: &str, act: Act) -> std::io::Result<Self> {
        let address: SocketAddr = address.parse().unwrap();
        let port = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Both have the flag, which permits two sockets on a port of which one listens.
        port.set_reuseaddr(true)?;
        port.bind(address)?;
        let listener = TcpListener::bind(port.local_addr()?).await?;
        Ok(Self::with(listener, Some(port), act))
    }

    pub fn on(listener: TcpListener, act: Act) -> Self {
        Self::with(listener, None, act)
    }

    fn with(listener: TcpListener, port: Option<TcpSocket>, act: Act) -> Self {
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicUsize>::default());
        let (heads, accepted) = (Arc::clone(&seen), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            // Dropped with the task: every connection breaks at once, as when a process is killed.
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                open.spawn(serve(stream, act.clone(), Arc::clone(&heads)));
                while open.try_join_next().is_some() {}
            }
        });
        Self { address, seen, connections, task: task.abort_handle(), _port: port }
    }

    /// The heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().heads.clone()
    }

    /// The bodies of the requests so far.
    pub fn bodies(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.bodies.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    }

    /// The request lines so far, without the version.
    pub fn lines(&self) -> Vec<String> {
        let line = |head: &String| head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        self.heads().iter().map(line).collect()
    }

    pub fn served(&self) -> usize {
        self.seen.lock().unwrap().heads.len()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Every connection breaks, and the port refuses from now on.
    pub fn kill(&self) {
        self.task.abort();
    }

    pub fn instance(&self, id: &str) -> ServiceInstance {
        at(self.address, id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The body that begins there, and where it ends; `None` while a part of it is to come.
fn body(head: &str, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    if header(head, "transfer-encoding").is_none() {
        let length = header(head, "content-length").map_or(0, |value| value.parse().unwrap());
        return Some((bytes.get(..length)?.to_vec(), length));
    }
    let (mut whole, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[at..at + line]).unwrap(), 16).unwrap();
        at += line + 2;
        whole.extend_from_slice(bytes.get(at..at + length)?);
        at += length + 2;
        if bytes.len() < at {
            return None;
        }
        if length == 0 {
            return Some((whole, at));
        }
    }
}

async fn serve(mut stream: TcpStream, act: Act, seen: Arc<Mutex<Seen>>) {
    let mut bytes = Vec::new();
    loop {
        let (head, whole) = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(bytes[..at + 4].to_vec()).unwrap();
                if let Some((whole, end)) = body(&head, &bytes[at + 4..]) {
                    bytes.drain(..at + 4 + end);
                    break (head, whole);
                }
            }
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => {}
                _ => return,
            }
        };
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.heads.push(head);
            seen.bodies.push(whole);
            seen.heads.len()
        };
        let mut act = act.clone();
        loop {
            act = match &act {
                Act::By(by) => by(number),
                Act::On(on) => on(&target),
                _ => break,
            };
        }
        match &act {
            Act::Answer(answer) => {
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            Act::Hang => std::future::pending().await,
            Act::Break | Act::By(_) | Act::On(_) => return,
            Act::Parts(first, gate, rest) => {
                let _ = stream.write_all(first.as_bytes()).await;
                gate.notified().await;
                let _ = stream.write_all(rest.as_bytes()).await;
                return;
            }
        }
    }
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

pub fn at(address: SocketAddr, id: &str) -> ServiceInstance {
    ServiceInstance::builder(address.ip().to_string()).port(address.port()).id(id).build().unwrap()
}

/// A port that refuses: it is bound, so that nobody else gets it, and nobody listens.
pub struct Refusing(TcpSocket);

impl Refusing {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub fn instance(&self, id: &str) -> ServiceInstance {
        at(self.0.local_addr().unwrap(), id)
    }

    /// From now on it serves.
    pub fn revive(self, act: Act) -> Server {
        Server::on(self.0.listen(64).unwrap(), act)
    }
}

/// Balancers over the service `orders` with these instances.
pub fn balancers(
    instances: impl IntoIterator<Item = ServiceInstance>,
    properties: Properties,
) -> LoadBalancers {
    let registry = SimpleDiscovery::new().with_instances("orders", instances).unwrap();
    // Named, so that http://orders is balanced.
    let properties = properties.set_for("orders", "enabled", true).unwrap();
    LoadBalancers::from_properties(properties, registry).unwrap()
}

/// Properties for a client of several threads whose servers are killed under load.
///
/// Rarely, and mostly on a busy machine, a request that is handed to a connection in the very moment in which that ends stays
/// in its queue for ever: tokio's channels drop what was sent before the receiver went, but not what a sender is about to put
/// there; and hyper holds the sender as long as it waits. No answer and no error comes, so that only a limit helps.
pub fn killable() -> Properties {
    Properties::default().set("retry.per-try-timeout", "20s").unwrap()
}

/// A client over these services, all of them known by name.
pub fn services(all: &[(&str, &[ServiceInstance])]) -> Client {
    let (mut registry, mut properties) = (SimpleDiscovery::new(), Properties::default());
    for (name, instances) in all {
        registry = registry.with_instances(*name, instances.iter().cloned()).unwrap();
        properties = properties.set_for(name, "enabled", true).unwrap();
    }
    client(&LoadBalancers::from_properties(properties, registry).unwrap())
}

pub fn client(balancers: &LoadBalancers) -> Client {
    balancers.reqwest(|_| reqwest::Client::builder()).unwrap()
}

pub fn over(instances: impl IntoIterator<Item = ServiceInstance>) -> Client {
    client(&balancers(instances, Properties::default()))
}

/// A call that has to come to an end, in a test whose machine may stall.
pub async fn ends<T>(what: &str, call: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let ended = tokio::time::timeout(limit, call).await;
    ended.unwrap_or_else(|_| panic!("{what} has not ended within {limit:?}: it hangs"))
}

/// Waits for an event of another task or socket, for ten seconds at most.
pub async fn eventually(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
