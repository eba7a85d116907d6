//! What the tables promise, over the case vectors and odd weights.

mod random;

use super::smooth::smooth;
use super::stride::Stride;
use super::{Alias, MAX_SLOTS, Sequence};

const MOST: u64 = u32::MAX as u64 * 1000;

/// Picks per index over these turns.
fn counts(len: usize, turns: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut counts = vec![0; len];
    turns.for_each(|index| counts[index] += 1);
    counts
}

fn turns(weights: &[u64], count: u64) -> Vec<usize> {
    let sequence = Sequence::new(weights).expect("some weight");
    (0..count).map(|turn| sequence.at(turn)).collect()
}

fn longest_run(picks: &[usize], index: usize) -> usize {
    picks.split(|&pick| pick != index).map(<[usize]>::len).max().unwrap_or_default()
}

/// 1000 draws with a fixed seed.
fn draws(weights: &[u64]) -> Vec<u64> {
    let alias = Alias::new(weights).expect("some weight");
    let mut rng = fastrand::Rng::with_seed(6);
    counts(weights.len(), (0..1000).map(|_| alias.at(rng.u64(..))))
}

#[test]
fn case_006_a_drained_instance_gets_nothing() {
    for (weights, heavy) in [([0, 1000], 1), ([1000, 0], 0)] {
        assert_eq!(counts(2, turns(&weights, 1000).into_iter())[heavy], 1000);
        assert_eq!(draws(&weights)[heavy], 1000);
    }
    let weights = [0, 3000, 0, 1000];
    assert_eq!(counts(4, turns(&weights, 1000).into_iter()), [0, 750, 0, 250]);
    let drawn = draws(&weights);
    assert_eq!((drawn[0], drawn[2], drawn[1] + drawn[3]), (0, 0, 1000));
    assert!((700..800).contains(&drawn[1]), "{drawn:?}");
}

#[test]
fn case_006_all_drained_is_the_same_none_every_time() {
    for weights in [&[0, 0][..], &[0], &[]] {
        for _ in 0..10 {
            assert!(Sequence::new(weights).is_none());
            assert!(Alias::new(weights).is_none());
            assert!(Stride::new(weights).is_none());
            assert!(smooth(weights, MAX_SLOTS).is_none());
        }
    }
}

#[test]
fn case_007_every_six_picks_hold_one_two_three() {
    let picks = turns(&[1000, 2000, 3000], 600);
    assert!(picks.windows(6).all(|window| counts(3, window.iter().copied()) == [1, 2, 3]), "{picks:?}");
    assert_eq!(longest_run(&picks, 2), 1);
    assert_eq!(picks[..6], [2, 1, 2, 1, 2, 0]);
}

#[test]
fn case_007_a_heavy_one_does_not_burst() {
    let picks = turns(&[5000, 1000, 1000], 700);
    assert!(picks.windows(7).all(|window| counts(3, window.iter().copied()) == [5, 1, 1]), "{picks:?}");
    assert!(longest_run(&picks, 0) <= 4, "{picks:?}");
}

#[test]
fn case_007_equal_weights_rotate() {
    assert_eq!(turns(&[700; 5], 11), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]);
    assert_eq!(turns(&[9, 0, 9, 9], 6), [0, 2, 3, 0, 2, 3]);
    assert_eq!(smooth(&[700; 5], MAX_SLOTS).as_deref(), Some(&[0, 1, 2, 3, 4][..]));
    // Longer than a table may be, and still a plain rotation.
    let mut weights = vec![1000; 100_000];
    assert_eq!(turns(&weights, 100_002)[99_998..], [99_998, 99_999, 0, 1]);
    weights[1] = 0;
    assert_eq!(turns(&weights, 100_001)[99_997..], [99_998, 99_999, 0, 2]);
}

#[test]
fn case_008_large_and_tiny_weights() {
    assert_eq!(counts(2, turns(&[MOST, MOST], 2000).into_iter()), [1000, 1000]);
    let picks = counts(2, turns(&[1_000_000_000_000, 1000], 2000).into_iter());
    assert!(picks[1] <= 1, "{picks:?}");
    assert_eq!(counts(2, turns(&[1000, 4], 2510).into_iter()), [2500, 10]);
    let uneven: Vec<u64> = (0..200).map(|index| MOST - index).collect();
    for weights in [vec![MOST; 200], uneven] {
        assert!(
            counts(200, turns(&weights, 2000).into_iter()).iter().all(|&count| (8..=12).contains(&count))
        );
        let alias = Alias::new(&weights).expect("weights");
        let mut rng = fastrand::Rng::with_seed(8);
        assert!((0..2000).map(|_| alias.at(rng.u64(..))).all(|index| index < 200));
    }
    // Out of any range: no overflow, nobody lost.
    let weights = [u64::MAX, u64::MAX - 1, u64::MAX / 2];
    assert!(counts(3, turns(&weights, 99).into_iter()).iter().all(|&count| count > 9));
    assert!(draws(&weights).iter().all(|&count| count > 99));
}

#[test]
fn one_instance_has_every_turn() {
    for weight in [1, 1000, MOST] {
        assert_eq!(smooth(&[weight], MAX_SLOTS).as_deref(), Some(&[0][..]));
        let stride = Stride::new(&[0, weight]).expect("weight");
        let alias = Alias::new(&[weight]).expect("weight");
        for turn in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            assert_eq!(
                (stride.at(turn), alias.at(turn), Sequence::new(&[weight]).unwrap().at(turn)),
                (1, 0, 0)
            );
        }
    }
}

#[test]
fn a_period_too_long_is_not_written_out() {
    let weights: Vec<u64> = (1..=10_000).map(|index| index * 1000).collect();
    assert!(smooth(&weights, MAX_SLOTS).is_none());
    assert_eq!(Sequence::new(&weights).unwrap().period(), None);
    assert_eq!(Sequence::new(&weights[..300]).unwrap().period(), Some(45_150));
    assert_eq!(Sequence::new(&weights[..1]).unwrap().period(), Some(1));
}

#[test]
fn a_stride_stays_even_with_a_fibonacci_number_of_instances() {
    let mut weights = vec![1000; 10_946];
    weights[5000] = 1000 * 3500;
    let gap = |at: &dyn Fn(u64) -> usize| {
        let picks: Vec<usize> = (0..40_000).map(at).collect();
        picks.split(|&pick| pick == 5000).map(<[usize]>::len).max().unwrap()
    };
    let (stride, alias) = (Stride::new(&weights).unwrap(), Alias::new(&weights).unwrap());
    assert!(gap(&|turn| stride.at(turn)) <= 8);
    // Why the stride has a line of its own: the same steps through an alias table.
    assert!(gap(&|turn| alias.at(turn.wrapping_mul(0x9E37_79B9_7F4A_7C15))) > 10_000);
}
