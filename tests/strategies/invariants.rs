//! Whatever happens to a call, nothing of it is left behind.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::call::{Available, Broadcast, Failfast, Failover, Failsafe, Forking, Hedging};
use evenkeel::{Choice, Failure, Request};
use proptest::prelude::*;

use super::common::{Does, Heard, Script, balancer_with, classify};

fn does() -> impl Strategy<Value = Does> {
    let failure =
        prop::sample::select(vec![Failure::Connect, Failure::Timeout, Failure::Reset, Failure::Other]);
    prop_oneof![
        (0..50_u64).prop_map(Does::Ok),
        (prop::sample::select(vec![200, 404, 429, 503]), 0..50_u64)
            .prop_map(|(status, ms)| Does::Status(status, ms)),
        (failure, 0..50_u64).prop_map(|(failure, ms)| Does::Fail(failure, ms)),
        (0..50_u64).prop_map(Does::Business),
        (0..3_u16).prop_map(Does::Later),
        Just(Does::Hang),
        Just(Does::Panic),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_lease_and_every_event_ends_once(
        which in 0..7,
        rows in prop::collection::vec(prop::collection::vec(does(), 1..4), 3),
        patience in 0..5_000_u64,
        limits in (prop::option::of(1..60_u64), prop::option::of(1..100_u64)),
        keep in any::<bool>(),
    ) {
        // A panic that the script asks for says nothing of a fault.
        std::panic::set_hook(Box::new(|_| {}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (in_flight, events) = runtime.block_on(async {
            let heard = Arc::new(Heard::default());
            let lb = balancer_with("a b c", |builder| builder.lifecycle_arc(heard.clone()));
            let script = Script::new(&[("a", &rows[0]), ("b", &rows[1]), ("c", &rows[2])]);
            let each = Duration::from_millis(limits.0.unwrap_or(10_000));
            let all = Duration::from_millis(limits.1.unwrap_or(10_000));
            let ms = Duration::from_millis;
            let send = |choice: &Choice, attempt| script.send(choice, attempt);
            let empty = Request::EMPTY;
            let work = async {
                let answer = match which {
                    0 => script.run(&Failover::default().with_per_try_timeout(each).with_timeout(all), &lb).await,
                    1 => script.run(&Failfast::default().with_per_try_timeout(each), &lb).await,
                    2 => {
                        let hedging = Hedging::default().with_attempts(3).with_delay(ms(7));
                        script.run(&hedging.with_per_try_timeout(each).with_timeout(all), &lb).await
                    }
                    3 => script.run(&Forking::default().with_forks(0).with_timeout(all), &lb).await,
                    4 => script.run(&Available::default().with_timeout(all), &lb).await,
                    5 => {
                        let broadcast = Broadcast::default().with_fail_percent(50).with_per_try_timeout(each);
                        let answers = broadcast.run(&lb, &empty, classify, send).await;
                        answers.map(|mut answers| answers.pop().unwrap())
                    }
                    _ => {
                        let failsafe = Failsafe::new(Failover::default().with_timeout(all));
                        let Some(answer) = failsafe.run(&lb, &empty, classify, send).await else { return };
                        Ok(answer)
                    }
                };
                if let Ok(answer) = answer && keep {
                    answer.lease.complete(answer.response);
                }
            };
            let guarded = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(work));
            let _ = tokio::time::timeout(Duration::from_millis(patience), guarded).await;
            (lb.in_flight(), heard.take())
        });
        let _ = std::panic::take_hook();
        let count = |word: &str| events.iter().filter(|event| event.starts_with(word)).count();
        prop_assert_eq!(in_flight, 0);
        prop_assert_eq!((count("start "), count("complete ")), (1, 1), "{:?}", events);
        prop_assert!(events.last().unwrap().starts_with("complete "), "{events:?}");
        prop_assert_eq!(count("request "), count("attempt "), "{:?}", events);
        prop_assert_eq!(count("lease "), 0, "{:?}", events);
    }
}
