//! 3.17 `LoadBalancerClient`: cases 199 to 208.

use std::sync::Arc;

use evenkeel::client::LoadBalancerClient;
use evenkeel::config::Properties;
use evenkeel::discovery::SimpleDiscovery;
use evenkeel::observe::{AttemptStart, CallStart, Completion, Lifecycle};
use evenkeel::{ChooseErrorKind, Failure, LoadBalancers, Outcome, Reason, Request};

use crate::support::calls::Heard;
use crate::support::{instance, list};

fn registry() -> SimpleDiscovery {
    SimpleDiscovery::new().with_instances("myservice", list("test")).unwrap()
}

fn client() -> LoadBalancerClient {
    LoadBalancerClient::new(LoadBalancers::builder(registry()).build().unwrap())
}

fn classify<R>(result: Result<&R, &std::io::Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Failure(Failure::Other),
    }
}

#[tokio::test]
async fn scl_199_a_known_service_gives_its_instance() {
    let choice = client().choose("myservice", &Request::EMPTY).await.unwrap();
    assert!(choice.instance().same_identity(&instance("test")));
}

#[tokio::test]
async fn scl_200_an_unknown_service_is_a_typed_error() {
    let error = client().choose("unknownservice", &Request::EMPTY).await.unwrap_err();
    let evenkeel::client::ClientError::Choose(error) = error else { panic!("{error}") };
    assert!(matches!(error.kind(), ChooseErrorKind::NoInstances { reason: Reason::Empty, known: 0, .. }));
}

#[tokio::test]
async fn scl_201_execute_gives_the_instance_to_the_closure_and_returns_its_result() {
    let client = client();
    let answer = client
        .execute("myservice", &Request::EMPTY, classify, |attempt| {
            let seen = attempt.instance();
            async move {
                assert!(seen.same_identity(&instance("test")));
                Ok("result")
            }
        })
        .await
        .unwrap();
    assert_eq!((answer.response, answer.instance.id(), answer.attempts), ("result", "test", 1));
    answer.lease.complete(Outcome::Success);
}

#[tokio::test]
async fn scl_202_execute_on_an_unknown_service_names_it() {
    let error = client()
        .execute("unknownservice", &Request::EMPTY, classify, |_| async { Ok(()) })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("unknownservice"), "{error}");
    assert!(error.choose_error().is_some());
    // A name that is none never gets so far.
    let error = client().execute("a b", &Request::EMPTY, classify, |_| async { Ok(()) }).await.unwrap_err();
    assert!(error.build_error().is_some() && error.to_string().contains("a b"), "{error}");
}

#[tokio::test]
async fn scl_203_any_error_of_the_closure_comes_back_as_it_is() {
    let judge = |_: Result<&(), &String>| Outcome::Failure(Failure::Other);
    let error = client()
        .execute("myservice", &Request::EMPTY, judge, |_| async { Err("checked".to_owned()) })
        .await
        .unwrap_err();
    assert_eq!(error.into_call_error().unwrap(), "checked");
}

#[tokio::test]
async fn scl_204_so_does_an_io_error() {
    let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let error = client()
        .execute("myservice", &Request::EMPTY, classify::<()>, |_| async move { Err(broken()) })
        .await
        .unwrap_err();
    assert_eq!(error.into_call_error().unwrap().kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn scl_205_it_works_without_processors() {
    let answer = client().execute("myservice", &Request::EMPTY, classify, |_| async { Ok(1) }).await.unwrap();
    assert_eq!(answer.response, 1);
}

/// Broken at every event.
#[derive(Debug)]
struct Panics;

impl Lifecycle for Panics {
    fn order(&self) -> i32 {
        -1
    }
    fn on_start(&self, _: &CallStart<'_>) {
        panic!("on purpose");
    }
    fn on_start_request(&self, _: &AttemptStart<'_>) {
        panic!("on purpose");
    }
    fn on_complete(&self, _: &Completion<'_>) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn scl_206_two_processors_see_the_hint_and_the_result_and_one_that_panics_disturbs_nothing() {
    let (one, two) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
    let balancers = LoadBalancers::builder(registry())
        .properties(Properties::default().set("hint.myservice", "blue").unwrap())
        .lifecycle_arc(one.clone())
        .lifecycle(Panics)
        .lifecycle_arc(two.clone())
        .build()
        .unwrap();
    let client = LoadBalancerClient::new(balancers);
    let judge = |result: Result<&u16, &std::io::Error>| Outcome::Status(*result.unwrap());
    let answer = client.execute("myservice", &Request::EMPTY, judge, |_| async { Ok(204) }).await.unwrap();
    answer.lease.complete(Outcome::Status(204));
    let expected =
        ["start - blue", "request 1 test blue", "attempt 1 test status 204", "complete success test 204 - -"];
    assert_eq!(one.take(), expected);
    assert_eq!(two.take(), expected);
}

#[tokio::test]
async fn processors_run_by_their_order_and_hear_only_of_what_they_support() {
    use std::sync::Mutex;
    #[derive(Debug)]
    struct Named(i32, &'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Lifecycle for Named {
        fn order(&self) -> i32 {
            self.0
        }
        fn supports(&self, service: &evenkeel::ServiceId) -> bool {
            self.1 != "elsewhere" || service.as_str() != "myservice"
        }
        fn on_start(&self, _: &CallStart<'_>) {
            self.2.lock().unwrap().push(self.1);
        }
    }
    let told = Arc::<Mutex<Vec<_>>>::default();
    let named = |order, name| Named(order, name, Arc::clone(&told));
    let balancers = LoadBalancers::builder(registry())
        .lifecycle(named(5, "last"))
        .lifecycle(named(0, "second"))
        .lifecycle(named(0, "third"))
        .lifecycle(named(-7, "first"))
        .lifecycle(named(-9, "elsewhere"))
        .build()
        .unwrap();
    let client = LoadBalancerClient::new(balancers);
    let answer = client.execute("myservice", &Request::EMPTY, classify, |_| async { Ok(()) }).await.unwrap();
    drop(answer);
    assert_eq!(*told.lock().unwrap(), ["first", "second", "third", "last"]);
}

#[tokio::test]
async fn a_lease_that_was_chosen_by_hand_is_an_attempt_without_a_call() {
    let heard = Arc::new(Heard::default());
    let lb = crate::support::calls::balancer_with("a", |builder| builder.lifecycle_arc(heard.clone()));
    lb.choose(&Request::EMPTY).await.unwrap().complete(Outcome::Status(200));
    drop(lb.choose(&Request::EMPTY).await.unwrap());
    assert_eq!(heard.take(), ["lease 1 a status 200", "lease 1 a cancelled"]);
}

#[tokio::test]
async fn scl_207_a_service_that_is_switched_off_has_no_balancer() {
    let properties = Properties::default().set_for("myservice", "enabled", false).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(properties, registry()).unwrap());
    let error = client.choose("myservice", &Request::EMPTY).await.unwrap_err();
    assert!(matches!(error, evenkeel::client::ClientError::Service(_)), "{error}");
    assert!(error.to_string().contains("myservice") && error.to_string().contains("enabled"), "{error}");
}

#[tokio::test]
async fn a_url_inside_of_a_path_or_a_query_is_no_part_of_the_address() {
    let properties = Properties::default().set("x-forwarded.enabled", true).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(properties, registry()).unwrap());
    for logical in ["/login?next=https://evil.test/a", "/go/https://evil.test/b", "?u=ws://evil.test"] {
        let answer = client
            .execute("myservice", &Request::EMPTY, classify, |attempt| {
                let mut headers = http::HeaderMap::new();
                let url = attempt.prepare(&http::Method::GET, logical, &mut headers).unwrap();
                async move { Ok((url, headers)) }
            })
            .await
            .unwrap();
        let (url, headers) = &answer.response;
        let path = if logical.starts_with('/') { logical.to_owned() } else { format!("/{logical}") };
        assert_eq!(*url, format!("http://test.test:8080{path}"));
        assert!(headers.is_empty(), "{headers:?}");
        let url = client.reconstruct_uri(&instance("test"), logical).unwrap();
        assert_eq!(url, format!("http://test.test:8080{logical}"));
        assert_eq!(evenkeel::Target::of(&instance("test"), None, false).unwrap().reconstruct(logical), url);
    }
}

#[tokio::test]
async fn user_info_does_not_hide_the_service_whose_properties_hold() {
    let properties = Properties::default().set_for("myservice", "allow-downgrade", true).unwrap();
    let client = LoadBalancerClient::new(LoadBalancers::from_properties(properties, registry()).unwrap());
    let plain = instance("test").to_builder().secure(false).build().unwrap();
    for user in ["", "me@", "me:pass@", "other:myservice@"] {
        let url = client.reconstruct_uri(&plain, &format!("https://{user}MyService:444/x")).unwrap();
        assert_eq!(url, format!("http://{user}test.test:8080/x"));
    }
    client.reconstruct_uri(&plain, "https://myservice@other/x").unwrap_err();
    client.reconstruct_uri(&plain, "https://myservice:x@other/x").unwrap_err();
}
