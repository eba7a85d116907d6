use std::net::SocketAddr;
use std::time::Duration;

use evenkeel::config::{Format, Properties};
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::gateway::{Gateway, GatewayHandle};
use evenkeel::{LoadBalancers, ServiceInstance};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Long enough for a machine that stalls.
pub const LONG: Duration = Duration::from_secs(30);

pub struct Front {
    pub gateway: Gateway,
    pub handle: GatewayHandle,
    pub balancers: LoadBalancers,
    pub address: SocketAddr,
}

/// A gateway with these properties over these services.
pub async fn front(yaml: &str, services: &[(&str, Vec<ServiceInstance>)]) -> Front {
    let properties = Properties::parse(yaml, Format::Yaml, "application.yml").unwrap();
    let mut registry = SimpleDiscovery::new();
    for (service, instances) in services {
        registry = registry.with_instances(*service, instances.clone()).unwrap();
    }
    let balancers = LoadBalancers::from_properties(properties.clone(), registry).unwrap();
    let gateway = Gateway::builder(balancers.clone()).properties(&properties).unwrap().seed(1).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle = gateway.serve(listener).unwrap();
    let address = handle.address();
    Front { gateway, handle, balancers, address }
}

/// The same with one route, `lb://orders`, that has these filters.
pub async fn filtered(filters: &[&str], instances: Vec<ServiceInstance>) -> Front {
    let filters: Vec<_> = filters.iter().map(|filter| format!("'{filter}'")).collect();
    let yaml = format!(
        "evenkeel.gateway.routes: [{{id: r, uri: 'lb://orders', predicates: ['Path=/**'], filters: [{}]}}]",
        filters.join(", ")
    );
    front(&yaml, &[("orders", instances)]).await
}

pub async fn one_route(instances: Vec<ServiceInstance>) -> Front {
    filtered(&[], instances).await
}

/// An answer as it is on the wire.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        crate::net::header(&self.head, name)
    }
}

/// Sends these bytes and reads until the connection ends.
pub async fn ask(address: SocketAddr, request: &str) -> Reply {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
    reply(&bytes)
}

pub fn reply(bytes: &[u8]) -> Reply {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// A GET with these lines behind the host.
pub async fn get_with(address: SocketAddr, target: &str, lines: &str) -> Reply {
    ask(address, &format!("GET {target} HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n{lines}\r\n"))
        .await
}

pub async fn get(address: SocketAddr, target: &str) -> Reply {
    get_with(address, target, "").await
}

/// Reads from a stream until its text holds this.
pub async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut bytes = Vec::new();
    let found = async {
        while !String::from_utf8_lossy(&bytes).contains(wanted) {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the connection ended");
        }
    };
    let found = timeout(LONG, found).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(found.is_ok(), "{wanted:?} did not come: {text:?}");
    text
}
