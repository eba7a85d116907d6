use crate::common::{Front, ask, filtered, front, get};
use crate::net::{Act, Refusing, Server, by, ok, status};

async fn post(front: &Front, body: &str) -> u16 {
    let length = body.len();
    let request =
        format!("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    ask(front.address, &request).await.status
}

#[tokio::test]
async fn case_026_what_was_never_sent_goes_to_another_instance_whatever_its_method() {
    let (dead, server) = (Refusing::new(), Server::start(ok("")).await);
    let front = filtered(&[], vec![dead.instance("a"), server.instance("b")]).await;
    for _ in 0..4 {
        assert_eq!(post(&front, "hello").await, 200);
        assert_eq!(get(front.address, "/x").await.status, 200);
    }
}

#[tokio::test]
async fn safe_methods_are_repeated_as_the_properties_of_the_service_say() {
    let (bad, good) = (Server::start(status(503, "")).await, Server::start(ok("")).await);
    let yaml = "
evenkeel.retry.retryable-status-codes: 503
evenkeel.gateway.routes: [{id: r, uri: 'lb://orders'}]
";
    let front = front(yaml, &[("orders", vec![bad.instance("a"), good.instance("b")])]).await;
    for _ in 0..4 {
        assert_eq!(get(front.address, "/x").await.status, 200);
    }
    // A POST is not: each one that meets the bad instance gets its answer.
    let before = bad.served();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(post(&front, "hello").await);
    }
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(refused > 0 && refused == bad.served() - before, "{statuses:?}");
}

#[tokio::test]
async fn the_filter_retry_repeats_by_status_and_method() {
    let third = |number: usize| if number < 3 { status(502, "") } else { ok("done") };
    let server = Server::start(by(third)).await;
    let front =
        filtered(&["Retry=3, BAD_GATEWAY, GET, 1ms, 5ms, 2, false"], vec![server.instance("a")]).await;
    let reply = get(front.address, "/x").await;
    assert_eq!((reply.status, reply.body.as_str(), server.served()), (200, "done", 3));

    let server = Server::start(status(502, "")).await;
    let front = filtered(&["Retry=2, BAD_GATEWAY"], vec![server.instance("a")]).await;
    assert_eq!((get(front.address, "/x").await.status, server.served()), (502, 3));
    assert_eq!((post(&front, "").await, server.served()), (502, 4), "a POST is not named");
}

#[tokio::test]
async fn the_filter_retry_goes_to_another_instance_and_stops_at_the_budget() {
    let (bad, good) = (Server::start(status(500, "")).await, Server::start(ok("")).await);
    let front = filtered(&["Retry=1"], vec![bad.instance("a"), good.instance("b")]).await;
    for _ in 0..6 {
        assert_eq!(get(front.address, "/x").await.status, 200);
    }
    let server = Server::start(status(500, "")).await;
    let yaml = "
evenkeel.retry.budget: {percent: 1, min-per-second: 0}
evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', filters: [Retry=5]}]
";
    let poor = front_of(yaml, &server).await;
    for _ in 0..10 {
        assert_eq!(get(poor.address, "/x").await.status, 500);
    }
    assert!(server.served() <= 11, "{} attempts", server.served());
}

async fn front_of(yaml: &str, server: &Server) -> Front {
    front(yaml, &[("orders", vec![server.instance("a")])]).await
}

#[tokio::test]
async fn case_023_a_body_that_was_read_is_not_sent_again() {
    let server = Server::start(by(|number| if number == 1 { status(500, "first") } else { ok("") })).await;
    let front = filtered(&["Retry=3, 500, POST"], vec![server.instance("a")]).await;
    assert_eq!((post(&front, "hello").await, server.served()), (500, 1));
    // Without one there is nothing to lose.
    let server = Server::start(by(|number| if number == 1 { Act::Break } else { ok("") })).await;
    let front = filtered(&["Retry=3, 500, POST"], vec![server.instance("a")]).await;
    assert_eq!((post(&front, "").await, server.served()), (200, 2));
}

#[tokio::test]
async fn an_answer_that_is_given_up_for_another_one_counts_as_what_it_was() {
    let (bad, good) = (Server::start(status(500, "")).await, Server::start(ok("")).await);
    let yaml = "
evenkeel.outlier-detection: {enabled: true, consecutive-errors: 2}
evenkeel.retry.max-retries-on-next-service-instance: 0
evenkeel.gateway.routes: [{id: r, uri: 'lb://orders', filters: [Retry=1]}]
";
    let front = front(yaml, &[("orders", vec![bad.instance("a"), good.instance("b")])]).await;
    for _ in 0..8 {
        assert_eq!(get(front.address, "/x").await.status, 200);
    }
    assert_eq!(bad.served(), 2);
    let snapshot = front.balancers.get("orders").unwrap().snapshot().unwrap();
    let ejected = snapshot.all_instances().filter(|state| state.ejected().is_some());
    assert_eq!(ejected.map(|state| state.instance().id().to_owned()).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn an_attempt_that_took_too_long_is_repeated_too() {
    let second = |number: usize| if number == 1 { Act::Hang } else { ok("done") };
    for retry in [
        "evenkeel.retry: {per-try-timeout: 100ms, max-retries-on-next-service-instance: 0}",
        "evenkeel.gateway.httpclient.response-timeout: 100ms",
    ] {
        let server = Server::start(by(second)).await;
        let yaml = format!(
            "{retry}\nevenkeel.gateway.routes: [{{id: r, uri: 'lb://orders', filters: [Retry=1]}}]\n"
        );
        let front = front_of(&yaml, &server).await;
        let reply = get(front.address, "/x").await;
        assert_eq!((reply.status, reply.body.as_str(), server.served()), (200, "done", 2), "{retry}");
    }
}
