use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{LONG, one_route, read_until};
use crate::net::{Act, Server, at, eventually, ok};

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight_and_takes_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = one_route(vec![at(listener.local_addr().unwrap(), "a")]).await;
    let mut idle = TcpStream::connect(front.address).await.unwrap();
    let mut busy = TcpStream::connect(front.address).await.unwrap();
    busy.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    let (mut instance, _) = listener.accept().await.unwrap();
    read_until(&mut instance, "\r\n\r\n").await;
    let (address, handle) = (front.address, front.handle);
    let drained = tokio::spawn(handle.shutdown(LONG));
    // One that is idle is closed, and the port is free.
    assert_eq!(tokio::time::timeout(LONG, idle.read(&mut [0])).await.unwrap().unwrap(), 0);
    let mut refused = false;
    for _ in 0..1000 {
        refused = TcpStream::connect(address).await.is_err();
        if refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refused && !drained.is_finished());
    instance.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").await.unwrap();
    read_until(&mut busy, "done").await;
    let drained = tokio::time::timeout(LONG, drained).await.unwrap().unwrap();
    assert!(drained.is_complete(), "{drained:?}");
    assert_eq!(busy.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(front.balancers.in_flight(), 0);
}

#[tokio::test]
async fn what_does_not_end_within_the_limit_is_cut() {
    let server = Server::start(Act::Hang).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    eventually("the call", || server.served() == 1).await;
    let drained = front.handle.shutdown(Duration::from_millis(100)).await;
    assert_eq!((drained.cut, drained.websockets_cut, drained.is_complete()), (1, 0, false));
    assert_eq!(tokio::time::timeout(LONG, client.read(&mut [0])).await.unwrap().unwrap_or(0), 0);
    let balancers = front.balancers;
    eventually("the end of the lease", || balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn a_websocket_that_does_not_end_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = one_route(vec![at(listener.local_addr().unwrap(), "a")]).await;
    let mut client = TcpStream::connect(front.address).await.unwrap();
    let ask = b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(ask).await.unwrap();
    let (mut instance, _) = listener.accept().await.unwrap();
    read_until(&mut instance, "\r\n\r\n").await;
    let switch =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    instance.write_all(switch).await.unwrap();
    read_until(&mut client, "hello").await;
    let drained = front.handle.shutdown(Duration::from_millis(100)).await;
    assert_eq!((drained.websockets_cut, drained.is_complete()), (1, false));
    assert_eq!(tokio::time::timeout(LONG, client.read(&mut [0])).await.unwrap().unwrap_or(0), 0);
    let balancers = front.balancers;
    eventually("the end of the lease", || balancers.in_flight() == 0).await;
}

#[tokio::test]
async fn a_handle_that_is_dropped_ends_the_gateway() {
    let server = Server::start(ok("")).await;
    let front = one_route(vec![server.instance("a")]).await;
    let mut idle = TcpStream::connect(front.address).await.unwrap();
    idle.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    read_until(&mut idle, "200").await;
    let address = front.address;
    drop(front.handle);
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).await
    };
    assert!(tokio::time::timeout(LONG, closed).await.is_ok());
}
