//! Rings and tables by themselves, and pickers over a set of states.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::held::IN_PLACE;
use super::maglev_table::{MaglevTable, size};
use super::member::Member;
use super::ring::{Points, Ring};
use super::table::{Plan, Table};
use super::xx::Xx64;

mod moves;
mod picks;
mod updates;

/// Members with these names and weights, with uids in their order.
fn members<N: AsRef<str>>(of: impl IntoIterator<Item = (N, u64)>) -> Vec<Member> {
    (1..)
        .zip(of)
        .map(|(uid, (name, weight))| {
            let name = name.as_ref();
            Member { uid, name: name.into(), hash: Xx64::of(name.as_bytes()), weight }
        })
        .collect()
}

fn equal(n: usize) -> Vec<Member> {
    members((0..n).map(|at| (format!("10.0.{}.{}:8080", at / 250, at % 250 + 1), 1_000)))
}

fn counts(ring: &Ring, n: usize) -> Vec<usize> {
    let mut counts = vec![0; n];
    ring.points().iter().for_each(|point| counts[point.owner as usize] += 1);
    counts
}

#[test]
fn lbs_ring_sizes_by_the_formula_of_envoy() {
    let of = |weights: &[u64], least, most| {
        let list = members(weights.iter().zip('a'..).map(|(weight, name)| (name.to_string(), *weight)));
        counts(&Ring::new(Points::Scaled(least, most), &list), weights.len())
    };
    assert_eq!(of(&[3_000, 3_000, 4_000], 10, 8_388_608), [3, 3, 4]);
    assert_eq!(of(&[1_000; 3], 1_024, 8_388_608), [342; 3]);
    // The lightest has 103 of at least 1 024, the others by its measure; gRPC stops at 4 096.
    assert_eq!(of(&[1_000; 10], 1_024, 8_388_608), [103; 10]);
    assert_eq!(of(&[1, 3], 1_024, 4_096), [256, 768]);
    assert_eq!(of(&[1, 9_999], 1_024, 4_096), [1, 4_095]);
    assert_eq!(of(&[1_000; 5], 1, 2), [1, 1, 1, 1, 1], "nobody is left out");
    assert_eq!(of(&[u64::from(u32::MAX) * 1_000; 2], 1_024, 8_388_608), [512; 2]);
}

#[test]
fn lbs_a_hash_belongs_to_the_point_at_it_or_behind_it() {
    let ring = Ring::new(Points::Each(5), &equal(3));
    let points: Vec<u64> = ring.points().iter().map(|point| point.hash).collect();
    for (at, hash) in points.iter().enumerate() {
        assert_eq!((ring.place(*hash), ring.place(hash + 1)), (at, (at + 1) % points.len()));
    }
    assert_eq!((ring.place(0), ring.place(u64::MAX)), (0, 0));
    // The low half decides where the high halves are alike.
    let high = points[2] >> 32 << 32;
    assert!(high < points[2]);
    assert_eq!(ring.place(high), 2);
    assert_eq!(ring.place(high | 0xffff_ffff), if points[2] == high | 0xffff_ffff { 2 } else { 3 });
}

#[test]
fn lbs_points_follow_the_weight_in_the_middle() {
    let of = |weights: &[u64]| {
        let list = members(weights.iter().zip('a'..).map(|(weight, name)| (name.to_string(), *weight)));
        counts(&Ring::new(Points::Each(160), &list), weights.len())
    };
    assert_eq!(of(&[1_000]), [160]);
    assert_eq!(of(&[100_000, 100_000, 50_000, 200_000]), [160, 160, 80, 320]);
    // The canary leaves: the others keep their points.
    assert_eq!(of(&[100_000, 100_000, 200_000]), [160, 160, 320]);
    assert_eq!(of(&[1, 1_000, 1_000]), [1, 160, 160], "the lightest has a point");
    let huge = of(&[1, 1, u64::from(u32::MAX) * 1_000]);
    assert_eq!((huge[0], huge[1]), (1, 1));
    assert!((2_900..=3_072).contains(&huge[2]), "1 024 each at most: {huge:?}");
}

#[test]
fn lbs_maglev_shares_by_weight() {
    let of = |weights: &[u64], entries| {
        let list = members(weights.iter().zip('a'..).map(|(weight, name)| (name.to_string(), *weight)));
        MaglevTable::new(entries, &list).shares(weights.len())
    };
    assert_eq!(of(&[1_000, 2_000], 65_537), [21_846, 43_691]);
    assert_eq!(of(&[1_000; 3], 65_537), [21_846, 21_846, 21_845]);
    assert_eq!(of(&[1], 2), [2]);
    // Everybody has one, however light.
    assert_eq!(of(&[1, u64::from(u32::MAX) * 1_000], 65_537), [1, 65_536]);
    assert_eq!(of(&[1, 1, 1, 1, 1], 2), [1; 5], "a table has room for all");
}

#[test]
fn lbs_maglev_with_one_that_outweighs_ten_thousand_is_made_in_one_go() {
    let mut list = equal(10_000);
    list[17].weight = u64::from(u32::MAX) * 1_000;
    let shares = MaglevTable::new(200_003, &list).shares(10_000);
    assert_eq!(shares[17], 200_003 - 9_999);
    assert!(shares.iter().all(|share| *share >= 1));
}

#[test]
fn lbs_maglev_sizes_are_primes_with_room_for_all() {
    let asked = [(0, 1), (4, 1), (65_537, 1), (65_538, 1), (u32::MAX, 1), (7, 100), (7, 6_000_000)];
    let given = asked.map(|(asked, n)| size(asked, n));
    assert_eq!(given, [2, 5, 65_537, 65_539, 5_000_011, 101, 6_000_011]);
}

#[test]
fn dubbo_033_and_036_and_037_points_of_rings() {
    let ring = |names: &[String], nodes| {
        Ring::new(Points::Dubbo(nodes), &members(names.iter().map(|name| (name, 1_000))))
    };
    let points = |ring: &Ring, owner| -> Vec<u64> {
        let of = ring.points().into_iter().filter(|point| owner == 9 || point.owner == owner);
        of.map(|point| point.hash >> 32).collect()
    };
    let local: Vec<String> = (1..=5).map(|port| format!("127.0.0.1:{port}")).collect();
    let all = points(&ring(&local, 160), 9);
    assert_eq!(all.len(), 800);
    assert_eq!(all[..3], [11_213_243, 12_820_200, 18_148_748]);
    assert_eq!(all[799], 4_292_577_693);
    // Replica 0 of :1.
    let first = points(&ring(&local[..1], 4), 0);
    assert_eq!(first, [297_586_619, 593_580_832, 3_632_429_526, 3_884_228_264]);
    let two = ring(&["10.0.0.1:20880".to_owned(), "10.0.0.2:20880".to_owned()], 4);
    assert_eq!(points(&two, 0), [1_592_126_881, 1_693_096_856, 2_304_069_046, 3_038_814_219]);
    assert_eq!(points(&two, 1), [3_106_460_665, 3_296_439_099, 3_849_867_350, 3_905_499_468]);
}

#[test]
fn dubbo_039_the_number_of_points_comes_in_fours() {
    let of = |nodes, weights: &[u64]| {
        let list = members(weights.iter().zip('a'..).map(|(weight, name)| (name.to_string(), *weight)));
        counts(&Ring::new(Points::Dubbo(nodes), &list), weights.len())
    };
    assert_eq!(of(7, &[1_000; 2]), [4, 4]);
    assert_eq!(of(3, &[1_000; 2]), [4, 4], "a ring without points is no answer");
    assert_eq!(of(160, &[1_000, 1_000, 2_000, 5]), [160, 160, 320, 4]);
}
