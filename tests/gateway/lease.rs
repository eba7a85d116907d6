use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::common::{one_route, read_until};
use crate::net::{Act, Server, eventually};

#[tokio::test]
async fn case_035_a_client_that_goes_away_gives_the_lease_back() {
    let server = Server::start(Act::Hang).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = TcpStream::connect(front.address).await.unwrap();
        client.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        clients.push(client);
    }
    eventually("five calls", || server.served() == 5).await;
    assert_eq!(front.balancers.in_flight(), 5);
    clients.truncate(2);
    eventually("the end of three", || front.balancers.in_flight() == 2).await;
    drop(clients);
    eventually("the end of all", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn case_035_also_in_the_middle_of_a_body() {
    let first = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst";
    let server = Server::start(Act::Parts(first, Arc::new(Notify::new()), "")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    read_until(&mut client, "first").await;
    assert_eq!(front.balancers.in_flight(), 1);
    drop(client);
    eventually("the end", || front.balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_on_its_way_in_gives_the_lease_back() {
    let server = Server::start(Act::Hang).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.write_all(b"POST /x HTTP/1.1\r\nHost: h\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
    eventually("the call", || front.balancers.in_flight() == 1).await;
    drop(client);
    eventually("the end", || front.balancers.in_flight() == 0).await;
}
