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
    /// These bytes; when notified those; then the connection ends.
    Parts(&'static str, Arc<Notify>, &'static str),
}

pub fn by(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> Act {
    Act::By(Arc::new(act))
}

/// An answer with this status.
pub fn status(status: u16, body: &str) -> Act {
    Act::Answer(format!(
        "HTTP/1.1 {status} -\r\nx-from: server\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

pub fn ok(body: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

pub struct Server {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Server {
    pub async fn start(act: Act) -> Self {
        Self::at("127.0.0.1:0", act).await.unwrap()
    }

    pub async fn at(address: &str, act: Act) -> std::io::Result<Self> {
        Ok(Self::on(TcpListener::bind(address).await?, act))
    }

    pub fn on(listener: TcpListener, act: Act) -> Self {
        let address = listener.local_addr().unwrap();
        let (heads, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (seen, accepted) = (Arc::clone(&heads), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            // Dropped with the task: every connection breaks at once, as when a process is killed.
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                open.spawn(serve(stream, act.clone(), Arc::clone(&seen)));
                while open.try_join_next().is_some() {}
            }
        });
        Self { address, heads, connections, task: task.abort_handle() }
    }

    /// The heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub fn served(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

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

async fn serve(mut stream: TcpStream, act: Act, heads: Arc<Mutex<Vec<String>>>) {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => {}
                _ => return,
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        while bytes.len() < end + length {
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        bytes.drain(..end + length);
        let number = {
            let mut heads = heads.lock().unwrap();
            heads.push(head);
            heads.len()
        };
        let mut act = act.clone();
        while let Act::By(by) = &act {
            act = by(number);
        }
        match &act {
            Act::Answer(answer) => {
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            Act::Hang => std::future::pending().await,
            Act::Break | Act::By(_) => return,
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

pub fn client(balancers: &LoadBalancers) -> Client {
    balancers.reqwest(|_| reqwest::Client::builder()).unwrap()
}

pub fn over(instances: impl IntoIterator<Item = ServiceInstance>) -> Client {
    client(&balancers(instances, Properties::default()))
}

/// Waits for an event of another task or socket, for ten seconds at most.
pub async fn eventually(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
