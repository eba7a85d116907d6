//! Every interleaving of the lock-free parts: the lease and its one probing call, the word of a list, the rotation.
//!
//! ```text
//! CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg evenkeel_loom" CARGO_TARGET_DIR=target/loom \
//!     cargo test --release --lib loom
//! ```
//!
//! `crate::sync` swaps the atomics, and the lock of an instance's back-off, which is held around some of them; what is
//! modelled is the code that ships. Ghost counters are plain atomics of `std`, which loom does not interleave: they only
//! check. The other locks in an [`InstanceState`] are real ones, which is sound because no atomic of ours is touched under
//! them.

use std::sync::Arc;
use std::sync::atomic::AtomicU32 as Ghost;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use loom::thread;

use crate::choice::Failure;
use crate::policy::{POSITION_MASK, PickCx, Set};
use crate::random::Random;
use crate::state::{
    Claim, Crowd, Decay, Detection, EjectionTime, Fitness, Growth, InstanceState, Limits, Pace, ServiceState,
};
use crate::supplier::driver::Freshness;
use crate::{Choice, Outcome, Request, ServiceId, ServiceInstance};

/// Three preemptions find nearly every fault that more would (CHESS; Musuvathi and Qadeer, 2007), in seconds.
const PREEMPTIONS: usize = 3;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(check);
}

// ---------------------------------------------------------------------------------------------------------- fitness

/// What a call under [`Fitness`] does at its end.
#[derive(Clone, Copy)]
enum End {
    Answer,
    Cancel,
    NeverSent,
}

/// One call: claims, checks that no other call probes, and ends.
fn call(fitness: &Fitness, probing: &Ghost, end: End) {
    let probe = match fitness.claim() {
        Claim::Taken => return,
        Claim::Usable => false,
        Claim::Probe => true,
    };
    if probe {
        assert_eq!(probing.fetch_add(1, SeqCst), 0, "two calls probe one instance");
        thread::yield_now();
        // Before the step that lets the next one in.
        probing.fetch_sub(1, SeqCst);
    }
    match end {
        End::NeverSent => {
            fitness.fail(probe);
        }
        End::Answer if probe => {
            fitness.restore();
        }
        End::Cancel if probe => fitness.release(),
        End::Answer | End::Cancel => {}
    }
}

/// Two callers and the timer of a back-off, for each pair of ends: never two probing calls, and never a state from which
/// the instance could not come back.
#[test]
fn at_most_one_call_probes() {
    for ends in [
        [End::Answer, End::Cancel],
        [End::Answer, End::NeverSent],
        [End::Cancel, End::NeverSent],
        [End::Cancel, End::Cancel],
        [End::NeverSent, End::NeverSent],
    ] {
        model(move || {
            let (fitness, probing) = (Arc::new(Fitness::default()), Arc::new(Ghost::new(0)));
            assert!(fitness.fail(false), "skipped from the start");
            let callers = ends.map(|end| {
                let (fitness, probing) = (Arc::clone(&fitness), Arc::clone(&probing));
                thread::spawn(move || {
                    call(&fitness, &probing, end);
                    call(&fitness, &probing, end);
                })
            });
            fitness.probe_due();
            for caller in callers {
                caller.join().unwrap();
            }
            assert_eq!(probing.load(SeqCst), 0);
            // Whatever happened, the next timer or caller brings it back: it is not left probing for ever.
            fitness.probe_due();
            assert_ne!(fitness.claim(), Claim::Taken, "nobody can ever probe it again");
        });
    }
}

/// A burst of failures on a usable instance is one back-off.
#[test]
fn a_burst_of_failures_starts_one_back_off() {
    model(|| {
        let (fitness, started) = (Arc::new(Fitness::default()), Arc::new(Ghost::new(0)));
        let fail = |fitness: &Fitness, started: &Ghost| {
            if fitness.fail(false) {
                started.fetch_add(1, SeqCst);
            }
        };
        let others = [(), ()].map(|()| {
            let (fitness, started) = (Arc::clone(&fitness), Arc::clone(&started));
            thread::spawn(move || fail(&fitness, &started))
        });
        fail(&fitness, &started);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(started.load(SeqCst), 1);
        assert!(fitness.is_skipped());
    });
}

/// The lease as it ships: calls that end in every way, on a state whose back-off ends at once (there is no runtime to
/// wait on). The count in flight is right while they live and zero after.
#[test]
fn the_count_in_flight_returns_to_zero() {
    for ends in [
        [Outcome::Success, Outcome::Failure(Failure::Connect)],
        [Outcome::Cancelled, Outcome::Failure(Failure::Connect)],
        [Outcome::Failure(Failure::Connect), Outcome::Failure(Failure::Connect)],
    ] {
        model(move || {
            let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
            let instance = ServiceInstance::new("10.0.0.1", 8080).unwrap();
            let state = InstanceState::new(0, &instance, &service);
            let probing = Arc::new(Ghost::new(0));
            let take = |state: &Arc<InstanceState>, probing: &Ghost, end: Outcome| {
                let probe = match state.claim() {
                    Claim::Taken => return,
                    claim => claim == Claim::Probe,
                };
                let lease = Choice::new(Arc::clone(state), probe, 0, 1);
                assert!((1..=2).contains(&state.in_flight()), "{} in flight", state.in_flight());
                if probe {
                    assert_eq!(probing.fetch_add(1, SeqCst), 0, "two calls probe one instance");
                    probing.fetch_sub(1, SeqCst);
                }
                lease.complete(end);
            };
            let other = {
                let (state, probing) = (Arc::clone(&state), Arc::clone(&probing));
                thread::spawn(move || {
                    take(&state, &probing, ends[1]);
                    take(&state, &probing, ends[1]);
                })
            };
            take(&state, &probing, ends[0]);
            take(&state, &probing, ends[0]);
            other.join().unwrap();
            assert_eq!(state.in_flight(), 0);
            assert!(state.fits(), "with its back-off over it is usable, or due for a probing call");
        });
    }
}

/// Failures that eject, beside a good answer that brings the instance back: one ejection at a time, and the counts by which the
/// limits are kept are those of the instance in the end.
#[test]
fn ejections_are_counted_once_and_returned_once() {
    for ends in [
        [Outcome::Status(500), Outcome::Status(500)],
        [Outcome::Status(500), Outcome::Status(200)],
        [Outcome::Status(500), Outcome::Failure(Failure::Connect)],
    ] {
        model(move || {
            let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
            let time = EjectionTime {
                base: Duration::from_secs(30),
                max: Duration::from_secs(300),
                jitter: Duration::ZERO,
                growth: Growth::Linear,
            };
            service.outliers().configure(Some(Detection {
                interval: Duration::from_secs(10),
                time,
                limits: Limits { max_percent: 100, always_one: true, min_available_percent: 0 },
                consecutive: 1,
                consecutive_gateway: 0,
                consecutive_local: 0,
                success_rate: None,
                failure_percentage: None,
                retry_after: false,
            }));
            let instance = ServiceInstance::new("10.0.0.1", 8080).unwrap();
            let state = InstanceState::new(0, &instance, &service);
            service.outliers().count(Crowd { listed: 1, out: 0, ejected: 0 });
            let call = |state: &Arc<InstanceState>, end: Outcome| match state.claim() {
                Claim::Taken => {}
                claim => Choice::new(Arc::clone(state), claim == Claim::Probe, 0, 1).complete(end),
            };
            let other = {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    call(&state, ends[1]);
                    call(&state, Outcome::Status(200));
                })
            };
            call(&state, ends[0]);
            other.join().unwrap();
            let crowd = service.outliers().crowd();
            assert_eq!(crowd.ejected, usize::from(state.ejected().is_some()), "{crowd:?}");
            assert_eq!(crowd.out, isize::from(state.is_skipped()), "{crowd:?}");
            assert!(state.fits(), "with its time over it is usable, or due for a probing call");
            assert_eq!(state.in_flight(), 0);
        });
    }
}

/// The end of a hold beside the end of a call that went there anyway: whoever is first brings it in, and it is counted once.
#[test]
fn a_hold_ends_once() {
    for end in [Outcome::Status(200), Outcome::Cancelled, Outcome::Failure(Failure::Connect)] {
        model(move || {
            let service = Arc::new(ServiceState::new(ServiceId::new("orders").unwrap()));
            let instance = ServiceInstance::new("10.0.0.1", 8080).unwrap();
            let state = InstanceState::new(0, &instance, &service);
            service.outliers().count(Crowd { listed: 1, out: 0, ejected: 0 });
            assert!(state.hold(Duration::from_secs(30)) && !state.hold(Duration::from_secs(30)));
            let other = {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    let probe = state.claim_anyway();
                    Choice::new(Arc::clone(&state), probe, 0, 1).complete(end);
                })
            };
            state.end_hold();
            other.join().unwrap();
            assert!(!state.is_connecting() && !state.end_hold());
            assert_eq!(service.outliers().crowd().out, isize::from(state.is_skipped()));
            assert!(state.fits(), "with its time over it is usable, or due for a probing call");
            assert_eq!(state.in_flight(), 0);
        });
    }
}

/// Two answers of one moment, and a pick that reads between them: the peak stays, and no mean is half of one and half of
/// another.
#[test]
fn a_peak_is_never_lost_and_a_mean_is_read_whole() {
    let decay = Decay::over(Duration::from_secs(10));
    model(move || {
        let pace = Arc::new(Pace::default());
        let others = [5_000_000, 9_000_000].map(|took| {
            let pace = Arc::clone(&pace);
            thread::spawn(move || pace.observe(0, took, decay))
        });
        let read = pace.latency(0, 0, decay);
        assert!([None, Some(5e6), Some(9e6)].contains(&read), "{read:?}");
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(pace.latency(0, 0, decay), Some(9e6));
    });
}

/// Calls that begin and end beside each other leave no age behind.
#[test]
fn ages_of_calls_that_ended_are_gone() {
    model(|| {
        let pace = Arc::new(Pace::default());
        let call = |pace: &Pace, started: u64| {
            pace.enter(started);
            thread::yield_now();
            pace.leave(started);
        };
        let other = {
            let pace = Arc::clone(&pace);
            thread::spawn(move || call(&pace, 7_000))
        };
        call(&pace, 3_000);
        other.join().unwrap();
        // With one call that began at 0, the sum of the others would show.
        pace.enter(0);
        assert_eq!(pace.latency(1_024, 1, Decay::over(Duration::from_secs(10))), Some(1_024.0));
    });
}

// -------------------------------------------------------------------------------------------------------- freshness

/// A caller: takes the look-up that is due, checks that no other runs, and ends it.
fn look_up(word: &Freshness, running: &Ghost, started: &Ghost, wait: bool, due: bool) {
    if word.start(false) {
        assert_eq!(running.fetch_add(1, SeqCst), 0, "two look-ups run at once");
        started.fetch_add(1, SeqCst);
        thread::yield_now();
        running.fetch_sub(1, SeqCst);
        word.finish(wait, due);
    }
}

/// One `DUE`, three callers: exactly one of them starts.
#[test]
fn exactly_one_caller_starts_what_is_due() {
    model(|| {
        let (word, started) = (Arc::new(Freshness::new()), Arc::new(Ghost::new(0)));
        let start = |word: &Freshness, started: &Ghost| {
            if word.start(false) {
                started.fetch_add(1, SeqCst);
            }
        };
        let others = [(), ()].map(|()| {
            let (word, started) = (Arc::clone(&word), Arc::clone(&started));
            thread::spawn(move || start(&word, &started))
        });
        start(&word, &started);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(started.load(SeqCst), 1);
        assert!(word.load().is_busy() && !word.load().is_due() && word.load().must_wait());
    });
}

/// Two callers and a timer that first makes the list due and then lets it expire.
///
/// - never two look-ups at once, and not more of them than were due;
/// - **whoever must wait has something to wait for**: `WAIT` implies `DUE` or `BUSY`, or it would wait for ever.
#[test]
fn a_list_that_may_not_be_served_is_due_or_looked_up() {
    model(|| {
        let (word, running, started) =
            (Arc::new(Freshness::new()), Arc::new(Ghost::new(0)), Arc::new(Ghost::new(0)));
        let timer = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                word.due();
                word.expire();
            })
        };
        let caller = {
            let (word, running, started) = (Arc::clone(&word), Arc::clone(&running), Arc::clone(&started));
            thread::spawn(move || look_up(&word, &running, &started, false, false))
        };
        look_up(&word, &running, &started, false, false);
        let seen = word.load();
        assert!(!seen.must_wait() || seen.is_due() || seen.is_busy(), "it would wait for ever: {seen:?}");
        timer.join().unwrap();
        caller.join().unwrap();
        let end = word.load();
        assert!(!end.is_busy());
        assert!(!end.must_wait() || end.is_due(), "it would wait for ever: {end:?}");
        assert!((1..=2).contains(&started.load(SeqCst)));
    });
}

/// An end that asks for another look-up (a failure past the hard age, a runtime that died) is not lost, whoever else
/// makes the list due or serves it at that moment: afterwards one is due, or one runs.
#[test]
fn a_look_up_that_is_due_at_the_end_of_another_is_not_lost() {
    model(|| {
        let word = Arc::new(Freshness::new());
        assert!(word.start(false));
        let ended = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.finish(true, true))
        };
        let caller = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.start(true))
        };
        word.due();
        word.serve();
        ended.join().unwrap();
        let started = caller.join().unwrap();
        let end = word.load();
        assert!(end.is_due() != end.is_busy(), "{end:?}");
        assert_eq!(started, end.is_busy());
    });
}

/// Once closed, no look-up starts, however the last one ends and whatever its timers do.
#[test]
fn a_closed_list_never_starts() {
    model(|| {
        let word = Arc::new(Freshness::new());
        assert!(word.start(false));
        let ended = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.finish(true, true))
        };
        let timer = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                word.expire();
                word.due();
            })
        };
        word.close();
        assert!(!word.start(false), "started after the close");
        ended.join().unwrap();
        timer.join().unwrap();
        assert!(word.load().is_closed() && !word.start(true));
    });
}

/// A watch that asks whether anybody is there hears every caller that comes after the question.
#[test]
fn a_caller_after_the_question_keeps_a_watch_open() {
    model(|| {
        let word = Arc::new(Freshness::new());
        assert!(word.start(false));
        word.watching(false);
        assert!(!word.ask_idle());
        let caller = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                let asked = word.load().asks_whether_idle();
                word.in_use();
                asked
            })
        };
        word.due();
        assert!(caller.join().unwrap(), "the question was there before the caller");
        assert!(!word.ask_idle(), "a caller was there, and the watch would be closed");
        assert!(!word.load().is_due(), "nothing is due while a watch is open");
    });
}

// --------------------------------------------------------------------------------------------------------- rotation

/// Two threads on one wheel: no turn twice and none left out, also where the position starts again.
#[test]
fn no_turn_is_taken_twice_or_left_out() {
    for first in [0, POSITION_MASK - 1] {
        model(move || {
            let set = Arc::new(Set {
                states: Box::default(),
                cursor: Arc::default(),
                offsets: [first, 0],
                rehearsal: None,
            });
            let turns = |set: &Set| {
                let random = Random::new(Some(1));
                let mut cx = PickCx { set, request: &Request::EMPTY, random: &random, rule: None, now: 0 };
                [cx.turn(), cx.turn()]
            };
            let other = {
                let set = Arc::clone(&set);
                thread::spawn(move || turns(&set))
            };
            let mut all = [turns(&set), other.join().unwrap()].concat();
            all.sort_by_key(|turn| turn.wrapping_sub(first) & POSITION_MASK);
            let expected: Vec<u64> = (0..4).map(|n| (first + n) & POSITION_MASK).collect();
            assert_eq!(all, expected);
        });
    }
}

/// Two threads that pass over every other turn: each that is taken is taken once, in order, and no thread waits for ever.
#[test]
fn turns_that_are_passed_over_are_passed_over_once() {
    model(|| {
        let set = Arc::new(Set {
            states: Box::default(),
            cursor: Arc::default(),
            offsets: [1, 0],
            rehearsal: None,
        });
        let take = |set: &Set| {
            let random = Random::new(Some(1));
            let mut cx = PickCx { set, request: &Request::EMPTY, random: &random, rule: None, now: 0 };
            cx.turn_until(|_, turn| turn.is_multiple_of(2).then(|| usize::try_from(turn).unwrap()))
        };
        let other = {
            let set = Arc::clone(&set);
            thread::spawn(move || take(&set))
        };
        let mut all = [take(&set), other.join().unwrap()];
        all.sort_unstable();
        assert_eq!(all, [2, 4]);
        assert_eq!(take(&set), 6);
    });
}
