//! Retries when everybody is down. The clock is paused: with all sockets in one thread, it moves only when nobody has
//! anything to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::net::*;
use evenkeel::client::reqwest::Client;
use evenkeel::config::Properties;
use tokio::time::Instant;

/// Three servers, each of which fails while its switch is on.
async fn three() -> ([Server; 3], [Arc<AtomicBool>; 3]) {
    let switches = [(); 3].map(|()| Arc::new(AtomicBool::new(true)));
    let act = |at: usize| {
        let fails = Arc::clone(&switches[at]);
        by(move |_| if fails.load(Ordering::SeqCst) { status(503, "down") } else { ok("") })
    };
    let servers = [Server::start(act(0)).await, Server::start(act(1)).await, Server::start(act(2)).await];
    (servers, switches)
}

fn retrying(servers: &[Server; 3]) -> Client {
    let instances = servers.iter().zip(["a", "b", "c"]).map(|(server, id)| server.instance(id));
    let properties = Properties::default()
        .set("retry.retryable-status-codes", 503)
        .and_then(|properties| properties.set("retry.max-retries-on-next-service-instance", 2))
        .unwrap();
    client(&balancers(instances, properties))
}

fn served(servers: &[Server; 3]) -> usize {
    servers.iter().map(Server::served).sum()
}

/// So many calls, one each `pause`, by clones in turn; the statuses.
async fn calls(clones: &[Client], n: usize, pause: Duration) -> Vec<u16> {
    let mut statuses = Vec::new();
    for at in 0..n {
        tokio::time::advance(pause).await;
        let response = clones[at % clones.len()].get("lb://orders/x").send().await.unwrap();
        statuses.push(response.status().as_u16());
        response.bytes().await.unwrap();
    }
    statuses
}

#[tokio::test]
async fn a_storm_of_retries_stays_within_the_budget_in_every_window() {
    let (servers, _) = three().await;
    // Before the service begins to count its seconds.
    tokio::time::pause();
    let http = retrying(&servers);
    http.balancers().get("orders").unwrap();
    let start = Instant::now();
    let mut began = Vec::new();
    for _ in 0..2_400 {
        let before = served(&servers);
        tokio::time::advance(Duration::from_millis(5)).await;
        let at = start.elapsed().as_millis();
        let response = http.get("lb://orders/x").send().await.unwrap();
        assert_eq!(response.status(), 503, "the caller gets the answer itself");
        assert_eq!(response.text().await.unwrap(), "down");
        began.extend((before..served(&servers)).map(|_| at));
    }
    assert!(start.elapsed() < Duration::from_secs(13), "the clock ran away: {:?}", start.elapsed());
    assert!(began.len() > 2_400 + 200 && began.len() < 3 * 2_400, "{}", began.len());
    for end in (10_000..=12_000).step_by(100) {
        let attempts = began.iter().filter(|at| (end - 10_000..end).contains(*at)).count();
        // The budget counts in whole seconds: a window between them may see the retries of one second more.
        let more = if end % 1_000 == 0 { 0 } else { 200 * 2 / 10 + 10 };
        let most = 2_000 * 12 / 10 + 100 + more;
        assert!(attempts <= most, "{attempts} attempts in the ten seconds before {end} ms, {most} allowed");
    }
}

#[tokio::test]
async fn case_025_the_budget_is_shared_by_clones_and_fills_again() {
    for n in [1, 8] {
        let (servers, switches) = three().await;
        tokio::time::pause();
        let http = retrying(&servers);
        let clones = vec![http; n];
        let pause = Duration::from_millis(10);
        assert_eq!(calls(&clones, 1_000, pause).await, [503; 1_000]);
        let attempts = served(&servers);
        assert!((1_100..=1_300).contains(&attempts), "{attempts} attempts of 1000 calls by {n} clones");
        for switch in &switches {
            switch.store(false, Ordering::SeqCst);
        }
        assert_eq!(calls(&clones, 1_000, pause).await, [200; 1_000]);
        // What it refuses now is repeated on another one.
        switches[0].store(true, Ordering::SeqCst);
        let statuses = calls(&clones, 500, pause).await;
        let failed = statuses.iter().filter(|status| **status != 200).count();
        assert_eq!(failed, 0, "of 500, for which the good time before has paid");
        tokio::time::resume();
    }
}
