//! The first dead server, and what is repeated and what is not.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::net::*;
use evenkeel::client::reqwest::{Client, Error, Via};
use evenkeel::config::Properties;
use evenkeel::discovery::{DiscoveryClient, SupplyError};
use evenkeel::{LoadBalancers, ServiceId, ServiceInstance, async_trait};
use reqwest::Method;
use tokio::net::{TcpSocket, TcpStream};

async fn send(http: &Client, method: Method) -> Result<Via, Error> {
    let response = http.request(method, "lb://orders/x").body("body").send().await?;
    Ok(response.extensions().get::<Via>().unwrap().clone())
}

#[tokio::test]
async fn case_026_what_was_never_sent_goes_to_another_whatever_its_method() {
    for method in [Method::GET, Method::POST] {
        let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
        let http = over([dead.instance("a"), live.instance("b")]);
        let mut attempts = 0;
        for _ in 0..10 {
            let via = send(&http, method.clone()).await.unwrap();
            assert_eq!(via.instance().id(), "b");
            attempts += via.attempts();
        }
        assert_eq!(live.served(), 10);
        assert_eq!(attempts, 11, "the dead one was tried once, and skipped from then on");
    }
}

/// A port that takes no more connections: its queue is full, so that the system drops every attempt.
async fn blackhole() -> (tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await
    {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the queue of the listener never fills");
    }
    (listener, queued)
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_was_never_sent() {
    let (hole, _queued) = blackhole().await;
    let live = Server::start(ok("")).await;
    let properties = Properties::default().set("connect-timeout", "500ms").unwrap();
    let instances = [at(hole.local_addr().unwrap(), "a"), live.instance("b")];
    let http = client(&balancers(instances, properties));
    let start = Instant::now();
    let mut attempts = 0;
    for _ in 0..4 {
        attempts += send(&http, Method::POST).await.unwrap().attempts();
    }
    assert_eq!((attempts, live.served()), (5, 4));
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_limit_of_a_call_holds_for_both_attempts_together() {
    let (hole, _queued) = blackhole().await;
    let silent = Server::start(Act::Hang).await;
    let http = over([at(hole.local_addr().unwrap(), "a"), silent.instance("c")]);
    let limit = Duration::from_millis(1_600);
    let call = async || {
        let start = Instant::now();
        let error = http.get("lb://orders/x").timeout(limit).send().await.unwrap_err();
        (error.tried().len(), start.elapsed())
    };
    // One of the two goes to the hole first, where it stays for the second of `connect-timeout`.
    let mut ends = <[_; 2]>::from(tokio::join!(call(), call()));
    ends.sort_unstable();
    assert_eq!(ends.map(|(tried, _)| tried), [1, 2]);
    for (_, took) in ends {
        assert!(took >= limit && took < limit + Duration::from_millis(900), "{took:?}");
    }
}

#[tokio::test]
async fn case_026_a_post_that_may_have_been_processed_is_not_repeated() {
    let (silent, live) = (Server::start(Act::Hang).await, Server::start(ok("")).await);
    let http = over([silent.instance("c"), live.instance("b")]);
    let mut errors = Vec::new();
    for _ in 0..2 {
        let request = http.post("lb://orders/x").body("once").timeout(Duration::from_millis(800));
        errors.extend(request.send().await.err());
    }
    assert_eq!((silent.served(), live.served()), (1, 1), "each got one of the two");
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.tried().iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["c"]);
    assert!(error.to_string().contains(&silent.instance("c").to_string()), "{error}");
    assert!(error.reqwest_error().unwrap().is_timeout());
}

#[tokio::test]
async fn a_call_that_breaks_off_is_repeated_once_if_its_method_is_safe() {
    for (method, fails) in [(Method::GET, 0), (Method::HEAD, 0), (Method::POST, 1), (Method::PUT, 1)] {
        let (breaking, live) = (Server::start(Act::Break).await, Server::start(ok("")).await);
        let http = over([breaking.instance("r"), live.instance("b")]);
        let mut errors = Vec::new();
        for _ in 0..2 {
            errors.extend(send(&http, method.clone()).await.err());
        }
        assert_eq!(errors.len(), fails, "{method}: {errors:?}");
        assert!(errors.iter().all(|error| error.to_string().contains("r (127.0.0.1:")), "{errors:?}");
        assert_eq!((breaking.served(), live.served()), (1, 2 - fails), "{method}");
    }
}

#[tokio::test]
async fn a_post_over_a_connection_that_the_server_closes_meanwhile_is_sent_once() {
    // The server answers, and closes the connection when the next request is on it.
    let act = by(|number| if number % 2 == 1 { ok("") } else { Act::Break });
    let server = Server::start(act).await;
    let live = Server::start(ok("")).await;
    let http = over([server.instance("a"), live.instance("b")]);
    let (mut fails, mut answered) = (0, 0);
    for _ in 0..20 {
        match http.post("lb://orders/x").body("once").send().await {
            Ok(response) => answered += usize::from(response.status() == 200),
            Err(error) => {
                assert_eq!(error.tried().len(), 1, "{error}");
                fails += 1;
            }
        }
    }
    assert_eq!((fails, answered), (5, 15));
    assert_eq!((server.served(), live.served()), (10, 10), "each once");
    let list = http.balancers().get("orders").unwrap().snapshot().unwrap();
    assert!(list.instances().all(|state| !state.is_skipped()));
}

#[tokio::test]
async fn a_body_that_is_a_stream_is_sent_once() {
    // Nothing of it was read: it goes to the other one.
    let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
    let http = over([dead.instance("a"), live.instance("b")]);
    let stream = || reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("part")]));
    for _ in 0..2 {
        let response = http.post("lb://orders/x").body(stream()).send().await.unwrap();
        assert_eq!(response.extensions().get::<Via>().unwrap().instance().id(), "b");
    }
    assert_eq!(live.bodies(), ["part", "part"]);
    // It was read, and is gone; one that is made anew is not.
    for (made, fails) in [(false, 1), (true, 0)] {
        let (breaking, live) = (Server::start(Act::Break).await, Server::start(ok("")).await);
        let http = over([breaking.instance("r"), live.instance("b")]);
        let mut errors = Vec::new();
        for _ in 0..2 {
            let request = http.request(Method::OPTIONS, "lb://orders/x");
            let request = if made { request.body_with(stream) } else { request.body(stream()) };
            errors.extend(request.send().await.err());
        }
        assert_eq!((errors.len(), live.served()), (fails, 2 - fails), "{errors:?}");
        assert!(breaking.bodies().iter().chain(&live.bodies()).all(|body| body == "part"));
    }
}

#[tokio::test]
async fn a_single_instance_gives_the_original_error_with_its_name() {
    let dead = Refusing::new();
    let balancers = balancers([dead.instance("a")], Properties::default());
    let http = client(&balancers);
    for _ in 0..3 {
        let error = send(&http, Method::GET).await.unwrap_err();
        assert!(error.reqwest_error().unwrap().is_connect());
        assert_eq!(
            error.via().map(|via| (via.instance().id().to_owned(), via.attempts())),
            Some(("a".to_owned(), 1))
        );
        assert_eq!(
            error.tried(),
            [dead.instance("a").to_builder().service_id(id("orders")).build().unwrap()]
        );
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        assert!(text.contains("\"orders\"") && text.contains("a (127.0.0.1:"), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
    assert_eq!(balancers.in_flight(), 0);
}

fn id(text: &str) -> ServiceId {
    ServiceId::new(text).unwrap()
}

/// A registry that is asked, and counts how often.
#[derive(Clone, Debug)]
struct Asked(Arc<AtomicUsize>, Vec<ServiceInstance>);

#[async_trait]
impl DiscoveryClient for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }
    async fn instances(&self, _: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(self.1.clone())
    }
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_dead_instance_starts_a_look_up_and_a_probing_call_brings_it_back() {
    let (dead, live) = (Refusing::new(), Server::start(ok("")).await);
    let registry = Asked(Arc::default(), vec![dead.instance("a"), live.instance("b")]);
    let balancers = LoadBalancers::builder(registry.clone()).build().unwrap();
    let http = client(&balancers);
    balancers.ready(["orders"], Duration::from_secs(5)).await.unwrap();
    assert_eq!(registry.0.load(Ordering::SeqCst), 1);
    let failed = Instant::now();
    for _ in 0..2 {
        send(&http, Method::GET).await.unwrap();
    }
    eventually("a look-up", || registry.0.load(Ordering::SeqCst) == 2).await;
    let balancer = balancers.get("orders").unwrap();
    let list = balancer.snapshot().unwrap();
    let state = list.instances().find(|state| state.instance().id() == "a").unwrap();
    assert!(state.is_skipped());

    let revived = dead.revive(ok(""));
    while revived.served() == 0 {
        assert!(failed.elapsed() < Duration::from_secs(10), "it never came back");
        send(&http, Method::GET).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(failed.elapsed() >= Duration::from_millis(990), "{:?}", failed.elapsed());
    assert!(!state.is_skipped());
    for _ in 0..10 {
        send(&http, Method::GET).await.unwrap();
    }
    assert_eq!(revived.served(), 6, "it has its share again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_get_fails_when_one_of_three_is_killed_under_load() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(ok("")).await);
    }
    let ids = ["a", "b", "c"];
    let instances = servers.iter().zip(ids).map(|(server, id)| server.instance(id));
    let http = client(&balancers(instances, killable()));
    let running = Arc::new(AtomicBool::new(true));
    let answered = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (http, running, answered) = (http.clone(), Arc::clone(&running), Arc::clone(&answered));
            tokio::spawn(async move {
                while running.load(Ordering::Relaxed) {
                    ends("a GET", send(&http, Method::GET)).await.unwrap();
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("load", || servers[0].served() > 100).await;
    servers[0].kill();
    let at_death = answered.load(Ordering::Relaxed);
    eventually("more load", || answered.load(Ordering::Relaxed) > at_death + 500).await;
    running.store(false, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(http.balancers().in_flight(), 0);
}

/// What was sent to whom, in order, by GETs one after the other that retry this status once.
async fn sent(servers: &[(&str, &Server)], retried: u16, calls: usize) -> Vec<Vec<String>> {
    let properties = Properties::default().set("retry.retryable-status-codes", retried).unwrap();
    let http = client(&balancers(servers.iter().map(|(id, server)| server.instance(id)), properties));
    let counts = || servers.iter().map(|(_, server)| server.served()).collect::<Vec<_>>();
    let mut all = Vec::new();
    for _ in 0..calls {
        let before = counts();
        let response = http.get("lb://orders/x").send().await.unwrap();
        let last = response.extensions().get::<Via>().unwrap().instance().id().to_owned();
        response.bytes().await.unwrap();
        let (now, mut call) = (counts(), Vec::new());
        for (at, (id, _)) in servers.iter().enumerate() {
            assert!(now[at] - before[at] <= 1, "{id} was tried twice by one call");
            if now[at] > before[at] && *id != last {
                call.push((*id).to_owned());
            }
        }
        call.push(last);
        all.push(call);
    }
    all
}

#[tokio::test]
async fn case_022_first_attempts_of_two_nodes_alternate_though_each_call_is_repeated() {
    let (a, b) = (Server::start(status(500, "")).await, Server::start(status(500, "")).await);
    let all = sent(&[("a", &a), ("b", &b)], 500, 10).await;
    let firsts: Vec<&str> = all.iter().map(|call| &*call[0]).collect();
    assert!(all.iter().all(|call| call.len() == 2 && call[0] != call[1]), "{all:?}");
    assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]), "{firsts:?}");
}

#[tokio::test]
async fn case_022_what_one_node_refuses_is_shared_by_the_others() {
    let refuses = Server::start(status(503, "")).await;
    let (n1, n2, n3) =
        (Server::start(ok("")).await, Server::start(ok("")).await, Server::start(ok("")).await);
    let all = sent(&[("n0", &refuses), ("n1", &n1), ("n2", &n2), ("n3", &n3)], 503, 8).await;
    assert!(all.iter().all(|call| call.last().unwrap() != "n0"), "{all:?}");
    let served = [&n1, &n2, &n3].map(Server::served);
    assert!(served.iter().max().unwrap() - served.iter().min().unwrap() <= 2, "{served:?}");
}
