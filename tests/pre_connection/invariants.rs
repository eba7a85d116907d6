//! Whatever comes, leaves, answers or hangs: nobody is held beyond the limit, and every pick finds somebody.

use evenkeel::{Failure, Outcome, Request};
use proptest::prelude::*;
use tokio::runtime::Builder;

use super::fake::*;
use crate::support::*;

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const LIMIT: u64 = 3_000;

#[derive(Clone, Debug)]
enum Step {
    /// The list is those of the bits; never empty.
    List(u8),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A call that ends so.
    Call(u8),
    /// What becomes of tries of an instance from now on.
    Tries(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..64_u8).prop_map(Step::List),
        3 => prop_oneof![1..50_u64, 50..2_500_u64].prop_map(Step::Pass),
        3 => (0..4_u8).prop_map(Step::Call),
        2 => (0..6_usize, 0..6_u8).prop_map(|(id, how)| Step::Tries(id, how)),
    ];
    proptest::collection::vec(step, 1..60)
}

fn tries(how: u8) -> Try {
    match how {
        0 => Try::After(0),
        1 => Try::After(900),
        2 => Try::Refused(0),
        3 => Try::RefusedTimes(2),
        4 => Try::Panics,
        _ => Try::Hangs,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_held_beyond_the_limit(steps in steps(), ratio in 0.0..=1.0_f64, first_list: bool, divided: bool) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (live, fake) = (Live::new(list("a b")), Scripted::new());
            let properties = on()
                .with_ratio(ratio)
                .with_first_list(first_list)
                .with_timeout(MS(LIMIT))
                .with_connect_timeout(MS(500))
                .with_max_retries(3)
                .with_concurrency(2);
            let chain = chain(live.source());
            let chain = if divided { chain.with_panic_threshold(50) } else { chain };
            let lb = evenkeel::LoadBalancer::builder(chain.build().unwrap())
                .pre_connection(properties)
                .pre_connect(fake.clone())
                .build();
            pick(&lb).await;
            // Since when each has been held without a break, as seen from outside.
            let mut since = [None; IDS.len()];
            for step in steps {
                match step {
                    Step::List(bits) => {
                        let ids = IDS.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0).map(|(_, id)| *id);
                        live.set(list(&ids.collect::<Vec<_>>().join(" "))).await;
                    }
                    Step::Pass(ms) => to(&fake, fake.now() + ms).await,
                    Step::Call(end) => {
                        // No error, and no time passes.
                        let before = fake.now();
                        let lease = lb.choose(&Request::EMPTY).await.unwrap();
                        assert_eq!(fake.now(), before);
                        lease.complete(match end {
                            0 => Outcome::Failure(Failure::Connect),
                            1 => Outcome::Status(500),
                            2 => Outcome::Cancelled,
                            _ => Outcome::Status(200),
                        });
                    }
                    Step::Tries(id, how) => fake.set(IDS[id], tries(how)),
                }
                let held = connecting(&lb);
                for (at, id) in IDS.iter().enumerate() {
                    since[at] = if held.contains(id) { since[at].or(Some(fake.now())) } else { None };
                    // One that left and returned between two looks begins anew; the tries tell.
                    let last = fake.times(id).last().copied();
                    if let (Some(begun), Some(last)) = (since[at], last) {
                        assert!(fake.now() - begun.max(last) <= LIMIT, "{id} is held since {begun}");
                    }
                }
                assert!(fake.running() <= 2);
            }
            // Whatever was going on, after one more limit nobody is held, and nothing is tried any more.
            to(&fake, fake.now() + LIMIT + 1).await;
            assert_eq!(connecting(&lb), "");
            assert_eq!(fake.running(), 0);
            pick(&lb).await;
            lb.close().await;
        });
    }
}
