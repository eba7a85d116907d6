//! Nothing outlives its owner, and nobody stays held when what connects goes away.

use std::sync::Arc;

use evenkeel::{LoadBalancer, Request};
use tokio::runtime::{Builder, Runtime};

use super::fake::*;
use crate::support::*;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_balancer_that_is_closed_or_dropped_leaves_no_task() {
    for close in [true, false] {
        let (live, fake) = (Live::new(list("a")), Scripted::new());
        let lb = started(&live, &fake, on()).await;
        fake.set("b c", Try::Hangs);
        live.set(list("a b c")).await;
        assert_eq!(fake.running(), 2);
        let list = lb.snapshot().unwrap();
        if close {
            lb.close().await;
        }
        drop(lb);
        // At once, before the task is gone: whoever holds a snapshot sees nobody waited for.
        assert!(list.instances().all(|state| !state.is_connecting() && !state.is_skipped()));
        settle().await;
        assert_eq!(fake.running(), 0, "close: {close}");
        to(&fake, fake.now() + 60_000).await;
        assert_eq!(fake.asked(), 2);
        // The source is all that is left.
        drop((list, live));
        settle().await;
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0, "close: {close}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_comes_after_the_close_connects_nobody() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let lb = started(&live, &fake, on()).await;
    lb.close().await;
    live.set(list("a b")).await;
    assert_eq!(fake.asked(), 0);
}

/// A runtime that goes away takes the task along: nobody is held for want of it.
#[test]
fn a_runtime_that_dies_lets_everybody_in() {
    let (first, second) = (runtime(), runtime());
    let (live, lb, fake) = first.block_on(async {
        let (live, fake) = (Live::new(list("a")), Scripted::new());
        let lb = started(&live, &fake, on()).await;
        fake.set("b c", Try::Hangs);
        live.set(list("a b c")).await;
        assert_eq!(connecting(&lb), "bc");
        (live, lb, fake)
    });
    drop(first);
    assert_eq!((connecting(&lb).as_str(), fake.running()), ("", 0));
    second.block_on(async {
        even(&picks(&lb, 300).await, "a b c", 100, 1);
        // The next caller starts afresh: a newcomer is connected there.
        fake.set("d", Try::After(100));
        live.set(list("a b c d")).await;
        lb.refresh();
        settle().await;
        assert_eq!(connecting(&lb), "d");
        advance(0.1).await;
        settle().await;
        assert_eq!(connecting(&lb), "");
    });
}

/// On the runtime that was injected, whoever calls.
#[test]
fn it_runs_on_the_injected_runtime() {
    let injected = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let live = Live::new(list("a"));
    let fake = {
        let _inside = injected.enter();
        Scripted::new()
    };
    fake.set("b", Try::Hangs);
    let chain = chain(live.source()).with_runtime(injected.handle().clone());
    let lb =
        LoadBalancer::builder(chain.build().unwrap()).pre_connection(on()).pre_connect(fake.clone()).build();
    let caller = Builder::new_current_thread().enable_all().build().unwrap();
    caller.block_on(async { drop(lb.choose(&Request::EMPTY).await.unwrap()) });
    drop(caller);
    injected.block_on(async {
        live.set(list("a b")).await;
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while fake.running() == 0 && std::time::Instant::now() < limit {
            tokio::time::sleep(MS(5)).await;
        }
    });
    assert_eq!((fake.running(), connecting(&lb).as_str()), (1, "b"));
    drop(injected);
    assert_eq!((fake.running(), connecting(&lb).as_str()), (0, ""));
}

/// By default a connection of TCP: here one to a port where nobody listens, and then somebody does.
#[tokio::test]
async fn by_default_it_connects_by_tcp() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let late = evenkeel::ServiceInstance::builder("127.0.0.1").port(port).id("b").build().unwrap();
    let live = Live::new(list("a"));
    let lb = LoadBalancer::builder(chain(live.source()).build().unwrap()).pre_connection(on()).build();
    pick(&lb).await;
    live.set([list("a"), vec![late]].concat()).await;
    until("a try that fails", || lb.status().to_string().contains("connection refused")).await;
    assert_eq!(connecting(&lb), "b");
    let listener = socket.listen(8).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    until("its calls", || connecting(&lb).is_empty()).await;
    even(&picks(&lb, 20).await, "a b", 10, 0);
    drop(stream);
}

async fn until(what: &str, happened: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !happened() {
        assert!(start.elapsed().as_secs() < 20, "{what} did not happen");
        tokio::time::sleep(MS(2)).await;
    }
}

#[derive(Debug)]
struct Holding {
    scripted: Scripted,
    _kept: Arc<()>,
}

#[evenkeel::async_trait]
impl evenkeel::PreConnect for Holding {
    async fn connect(
        &self,
        instance: &evenkeel::ServiceInstance,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.scripted.connect(instance).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_connects_is_dropped_with_the_balancer() {
    let (live, fake) = (Live::new(list("a")), Scripted::new());
    let kept = Arc::new(());
    let lb = LoadBalancer::builder(chain(live.source()).build().unwrap())
        .pre_connection(on())
        .pre_connect(Holding { scripted: fake.clone(), _kept: Arc::clone(&kept) })
        .build();
    pick(&lb).await;
    fake.set("b", Try::Hangs);
    live.set(list("a b")).await;
    assert_eq!((fake.running(), Arc::strong_count(&kept)), (1, 2));
    drop(lb);
    settle().await;
    assert_eq!((fake.running(), Arc::strong_count(&kept)), (0, 1));
}
