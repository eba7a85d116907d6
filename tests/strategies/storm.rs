//! A service that is down does not get more calls than the budget allows.

use std::time::Duration;

use evenkeel::call::{Failover, Hedging, Strategy};
use evenkeel::{Failure, Outcome, Request};

use super::common::{Bad, balancer, classify};

/// 200 calls a second for a minute on three instances of which none answers well; when each attempt began, in milliseconds.
async fn storm(strategy: impl Strategy) -> Vec<u64> {
    let lb = balancer("a b c");
    let start = tokio::time::Instant::now();
    let mut began = Vec::new();
    for _ in 0..12_000 {
        tokio::time::advance(Duration::from_millis(5)).await;
        let send = |_: &_, _| {
            began.push(u64::try_from(start.elapsed().as_millis()).unwrap());
            Some(async { Err::<Outcome, _>(Bad(Outcome::Failure(Failure::Reset))) })
        };
        strategy.run(&lb, &Request::EMPTY, classify, send).await.unwrap_err();
    }
    began
}

#[tokio::test(start_paused = true)]
async fn lbs_retry_storm_attempts_stay_within_the_budget_in_every_window() {
    let failover = storm(Failover::default().with_retries(2)).await;
    let hedging = storm(Hedging::default().with_attempts(3)).await;
    for began in [failover, hedging] {
        // Without a budget these were 36 000.
        assert!(began.len() > 12_000 + 1_000, "{}", began.len());
        for end in (10_000..60_000_u64).step_by(100) {
            let attempts = began.iter().filter(|at| (end - 10_000..end).contains(*at)).count() as u64;
            // The budget counts in whole seconds: a window between them may see the retries of one second more.
            let more = if end % 1_000 == 0 { 0 } else { 200 * 2 / 10 + 10 };
            let most = 2_000 * 12 / 10 + 100 + more;
            assert!(
                attempts <= most,
                "{attempts} attempts in the ten seconds before {end} ms, {most} allowed"
            );
        }
    }
}
