//! What the tables promise, over random and adversarial weights.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "measuring"
)]

use proptest::prelude::*;

use super::super::smooth::{separate, smooth};
use super::super::stride::Stride;
use super::super::{Alias, MAX_SLOTS, Table};
use super::{MOST, counts};

/// Shapes that press the rule of case 007: one at, just under and just over half, two equal
/// halves, one heavy and many ones, a few levels, anything.
fn lists() -> impl Strategy<Value = Vec<u64>> {
    let rest = || prop::collection::vec(0_u64..12, 1..24);
    let with_half = (rest(), -2_i64..=2).prop_map(|(mut list, more)| {
        let sum: u64 = list.iter().sum();
        list.insert(list.len() / 2, sum.saturating_add_signed(more));
        list
    });
    let two_halves = (1_u64..60, 0_u64..3, prop::collection::vec(0_u64..2, 0..4))
        .prop_map(|(half, less, rest)| [vec![half, half.saturating_sub(less)], rest].concat());
    let ones = (1_usize..60, 1_u64..80).prop_map(|(ones, heavy)| [vec![1; ones], vec![heavy]].concat());
    let levels = (prop::collection::vec(0_usize..3, 2..40), [1_u64..5, 1..30, 1..200])
        .prop_map(|(list, levels)| list.into_iter().map(|level| levels[level]).collect());
    let any = prop::collection::vec(prop_oneof![0_u64..4, 0_u64..100], 1..30);
    let thirds = (1_u64..50, prop::collection::vec(0_u64..4, 3))
        .prop_map(|(third, more)| more.into_iter().map(|more| third + more).collect());
    prop_oneof![with_half, two_halves, ones, levels, any, thirds]
        .prop_filter("all drained", |list: &Vec<u64>| list.iter().any(|&weight| weight > 0))
}

/// Who has two turns in a row although it has at most half of the weight.
fn pairs(weights: &[u64], slots: &[u32]) -> usize {
    let total: u64 = weights.iter().sum();
    let next = slots.iter().cycle().skip(1);
    slots.iter().zip(next).filter(|(a, b)| a == b && weights[**a as usize] * 2 <= total).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    /// Whatever order the repair is given, it ends with no pair and the same slots.
    #[test]
    fn any_order_can_be_repaired(list in lists(), shuffle in any::<Option<u64>>()) {
        let total: u64 = list.iter().sum();
        let mut slots: Vec<u32> = (0_u32..).zip(&list)
            .flat_map(|(index, &weight)| (0..weight).map(move |_| index))
            .collect();
        if let Some(seed) = shuffle {
            fastrand::Rng::with_seed(seed).shuffle(&mut slots);
        }
        let heavy = (0_u32..).zip(&list).find(|(_, weight)| **weight * 2 > total);
        separate(&mut slots, heavy.map(|(index, _)| index));
        prop_assert_eq!(pairs(&list, &slots), 0, "{:?}", slots);
        prop_assert_eq!(counts(list.len(), slots.iter().map(|&slot| slot as usize)), list);
    }

    #[test]
    fn a_table_counts_exactly_and_never_pairs_up(list in lists(), scale in 1_u64..2000) {
        let weights: Vec<u64> = list.iter().map(|weight| weight * scale).collect();
        let slots = smooth(&weights, MAX_SLOTS).expect("short enough");
        let total: u64 = list.iter().sum();
        let held = counts(list.len(), slots.iter().map(|&slot| slot as usize));
        for (weight, held) in list.iter().zip(&held) {
            prop_assert_eq!(weight * slots.len() as u64, held * total);
        }
        prop_assert_eq!(pairs(&weights, &slots), 0, "{:?}", slots);
    }

    /// Any window of m turns holds m * share of each, give or take 2.5.
    #[test]
    fn a_table_is_even_in_every_window(list in lists()) {
        let slots = smooth(&list, MAX_SLOTS).expect("short enough");
        prop_assert!(deviation(&list, slots.len(), |turn| slots[turn] as usize) < 2.5, "{:?}", slots);
    }

    #[test]
    fn a_table_knows_its_next_slots(list in lists(), turn in 0_u64..5000) {
        let table = Table::new(smooth(&list, MAX_SLOTS).expect("short enough"));
        for (index, &weight) in list.iter().enumerate() {
            let next = table.next_slot_after(turn, index);
            prop_assert_eq!(next.is_some(), weight > 0);
            prop_assert!(next.is_none_or(|next| next > turn && next <= turn + table.len()));
            prop_assert!(next.is_none_or(|next| table.at(next) == index));
        }
    }

    #[test]
    fn alias_shares_are_exact(list in prop::collection::vec(prop_oneof![0..3_u64, 0..MOST, Just(MOST)], 1..200)) {
        let total: u128 = list.iter().map(|&weight| u128::from(weight)).sum();
        prop_assume!(total > 0);
        let alias = Alias::new(&list).unwrap();
        for (&weight, owned) in list.iter().zip(alias.owned()) {
            // In units of 2^-64 of a column: one column's rounding per instance it shares with.
            let due = (u128::from(weight) * list.len() as u128) as f64 / total as f64 * 2_f64.powi(64);
            prop_assert!((owned as f64 - due).abs() <= due * 1e-12 + list.len() as f64);
            prop_assert_eq!(owned == 0, weight == 0);
        }
    }

    #[test]
    fn nothing_returns_a_drained_instance(
        list in prop::collection::vec(prop_oneof![Just(0), 1..3_u64, 1..MOST], 1..40),
        seed in any::<u64>(),
    ) {
        prop_assume!(list.iter().any(|&weight| weight > 0));
        let (alias, stride) = (Alias::new(&list).unwrap(), Stride::new(&list).unwrap());
        let mut rng = fastrand::Rng::with_seed(seed);
        for edge in 0..60 {
            // Random points, and both sides of every border between columns.
            let border = ((u128::from(rng.usize(..list.len()) as u64) << 64) / list.len() as u128) as u64;
            for point in [rng.u64(..), border.wrapping_sub(1), border, border.wrapping_add(1), edge, !edge] {
                prop_assert!(list[alias.at(point)] > 0);
                prop_assert!(list[stride.at(point)] > 0);
            }
        }
    }
}

/// The most by which any window of turns, of any length up to `span`, misses someone's due.
///
/// With `d(t)` as the picks up to turn t less their due, a window misses by `d(end) - d(start)`.
fn deviation(weights: &[u64], span: usize, at: impl Fn(usize) -> usize) -> f64 {
    let total: u64 = weights.iter().sum();
    let picks: Vec<usize> = (0..span).map(at).collect();
    let missed = |index: usize| {
        let (mut ahead, mut least, mut most) = (0.0_f64, 0.0_f64, 0.0_f64);
        for &pick in &picks {
            ahead += f64::from(u8::from(pick == index)) - weights[index] as f64 / total as f64;
            (least, most) = (least.min(ahead), most.max(ahead));
        }
        most - least
    };
    (0..weights.len()).map(missed).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_stride_is_even_in_every_window(
        list in prop::collection::vec(prop_oneof![1..1000_u64, 1..MOST], 1..40),
        heavy in prop_oneof![Just(0.0), 0.2..0.99],
    ) {
        let mut list = list;
        let others: u64 = list.iter().sum();
        list.push((others as f64 * heavy / (1.0 - heavy)) as u64);
        let stride = Stride::new(&list).unwrap();
        let missed = deviation(&list, 16_384, |turn| stride.at(turn as u64));
        prop_assert!(missed < 5.0, "{missed}");
    }

    #[test]
    fn a_stride_spares_the_last(list in prop::collection::vec(1..MOST, 1..30), heavy in 0.0..0.99) {
        let mut list = list;
        let others: u64 = list.iter().sum();
        list.push((others as f64 * heavy / (1.0 - heavy)) as u64);
        let (stride, total) = (Stride::new(&list).unwrap(), list.iter().sum::<u64>());
        let most = *list.iter().max().unwrap();
        let spared = |weight: u64| {
            let all = most * 8 <= total * 3 || most * 2 >= total;
            weight * 2 <= total && (all || weight == most || weight * 8 <= (total - most) * 3)
        };
        let picks: Vec<usize> = (0..5000).map(|turn| stride.at(turn)).collect();
        prop_assert!(picks.windows(2).all(|two| two[0] != two[1] || !spared(list[two[0]])));
    }
}
