//! What each zone gets of a client's traffic, so that every instance gets alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fraction::{Share, common_divisor};

/// The name of a zone, folded; blank is that of whoever names none.
pub(super) type Zone = Arc<str>;

/// What there is in each zone: capacity, or clients.
pub(super) type PerZone = BTreeMap<Zone, u64>;

/// What each zone gets.
pub(super) type Shares = BTreeMap<Zone, Share>;

/// Zones are compared without case.
pub(super) fn folded(zone: Option<&str>) -> Zone {
    zone.unwrap_or_default().trim().to_ascii_lowercase().into()
}

/// What a client in zone `own` sends where, when all clients do the same and each sends as much.
///
/// With the shares `s` of the servers and `c` of the clients: if `s(own) >= c(own)`, everything stays. Else `s(own) / c(own)`
/// stays, and the rest goes to the zones that have room, in proportion to it: room is `s(z) - c(z)`, where that is above 0.
/// Each server gets the same then. After Envoy's zone-aware routing, in fractions where that rounds to a hundredth of a
/// percent. Zones without any share are left out.
pub(super) fn proportional(own: &str, servers: &PerZone, clients: &PerZone) -> Shares {
    let (servers, clients) = (reduced(servers), reduced(clients));
    let sum = |of: &BTreeMap<&str, u128>| of.values().sum::<u128>();
    let (all_servers, all_clients) = (sum(&servers), sum(&clients));
    let at = |of: &BTreeMap<&str, u128>, zone: &str| of.get(zone).copied().unwrap_or_default();
    // Both shares over the same denominator.
    let server_part = |zone: &str| at(&servers, zone) * all_clients;
    let client_part = |zone: &str| at(&clients, zone) * all_servers;
    let (room_of_own, need) = (server_part(own), client_part(own));
    let mut shares = Shares::new();
    if room_of_own >= need {
        shares.insert(own.into(), Share::ONE);
        return shares;
    }
    let room = |zone: &str| server_part(zone).saturating_sub(client_part(zone));
    let rooms: u128 = servers.keys().map(|zone| room(zone)).sum();
    let spilt = Share::of(need - room_of_own, need);
    for zone in servers.keys() {
        let share = if *zone == own {
            Share::of(room_of_own, need)
        } else {
            Share::of(room(zone), rooms).times(spilt)
        };
        if !share.is_zero() {
            shares.insert((*zone).into(), share);
        }
    }
    shares
}

/// By the common divisor, since weights are mostly multiples of a thousand; and so that no product of two sums is too large.
fn reduced(of: &PerZone) -> BTreeMap<&str, u128> {
    let divisor = of.values().fold(0, |divisor, &number| common_divisor(u128::from(number), divisor)).max(1);
    let sum = of.values().map(|number| u128::from(*number) / divisor).sum::<u128>();
    let excess = (u128::BITS - sum.leading_zeros()).saturating_sub(60);
    let one = |number: u64| {
        let number = u128::from(number) / divisor;
        if number == 0 { 0 } else { (number >> excess).max(1) }
    };
    of.iter().map(|(zone, number)| (&**zone, one(*number))).collect()
}

/// What each zone gets by its weight: that, times how much of its part its usable instances can take, where `factor`
/// percent of them is enough; Envoy's locality weights. Zones without a weight get nothing as long as one that has it does;
/// when none has, the shares are empty.
pub(super) fn weighted(
    weights: &PerZone,
    factor: u64,
    listed: &PerZone,
    usable: impl Fn(&str) -> u64,
) -> Shares {
    let effective = |(zone, weight): (&Zone, &u64)| {
        let (listed, usable) =
            (u128::from(listed.get(zone).copied().unwrap_or_default()), u128::from(usable(zone)));
        // weight * min(100, factor * usable / listed), as a fraction that is not rounded.
        let (part, whole) = ((u128::from(factor) * usable).min(100 * listed), 100 * listed);
        (zone.clone(), Share::of(u128::from(*weight) * part, whole))
    };
    let shares: Shares = weights.iter().map(effective).filter(|(_, share)| !share.is_zero()).collect();
    normalised(shares)
}

/// Brought to a sum of 1.
pub(super) fn normalised(shares: Shares) -> Shares {
    let Some(sum) = Share::sum(shares.values().copied()) else { return Shares::new() };
    shares.into_iter().map(|(zone, share)| (zone, share.over(sum))).collect()
}

/// By how much a server's load may be off because shares were kept: a part of what it should have.
///
/// A list that flaps between two counts which differ by less moves nothing; a zone that loses one of twenty servers is
/// followed.
pub(super) const BAND: f64 = 0.05;

/// Whether the shares that are `held` may stay, where `new` ones would be exact: no server gets more than [`BAND`] too much
/// by it, nor too little, if all clients of the zone keep theirs.
pub(super) fn may_stay(held: &Shares, new: &Shares, own: &str, servers: &PerZone, clients: &PerZone) -> bool {
    let of_all = |of: &PerZone, zone: &str| {
        let sum: u128 = of.values().map(|number| u128::from(*number)).sum();
        Share::of(u128::from(of.get(zone).copied().unwrap_or_default()), sum).value()
    };
    let ours = of_all(clients, own);
    let share = |of: &Shares, zone: &str| of.get(zone).map_or(0.0, |share| share.value());
    held.keys().chain(new.keys()).all(|zone| {
        let off = (share(held, zone) - share(new, zone)).abs();
        // Nobody is left there: what is held for it has to go elsewhere.
        (of_all(servers, zone) > 0.0 || !held.contains_key(zone))
            && ours * off <= BAND * of_all(servers, zone)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    fn per_zone(counts: &[u64]) -> PerZone {
        let named = NAMES.iter().zip(counts).filter(|(_, count)| **count > 0);
        named.map(|(zone, count)| ((*zone).into(), *count)).collect()
    }

    fn percents(own: &str, servers: &[u64], clients: &[u64]) -> Vec<f64> {
        let shares = proportional(own, &per_zone(servers), &per_zone(clients));
        NAMES.iter().take(servers.len()).map(|z| shares.get(*z).map_or(0.0, |s| s.value() * 100.0)).collect()
    }

    /// What each server of each zone gets over what it should get, and how much crosses a zone, when each client sends the
    /// same.
    #[allow(clippy::cast_precision_loss)]
    fn loads(servers: &[u64], clients: &[u64]) -> (Vec<f64>, f64) {
        let (all_servers, all_clients): (u64, u64) = (servers.iter().sum(), clients.iter().sum());
        let mut got = vec![0.0; servers.len()];
        let mut crossing = 0.0;
        for (at, count) in clients.iter().enumerate().filter(|(_, count)| **count > 0) {
            let part = *count as f64 / all_clients as f64;
            for (to, percent) in percents(NAMES[at], servers, clients).iter().enumerate() {
                got[to] += part * percent / 100.0;
                crossing += if to == at { 0.0 } else { part * percent };
            }
        }
        let over = |(got, count): (f64, &u64)| got / (*count as f64 / all_servers as f64);
        (got.into_iter().zip(servers).filter(|(_, count)| **count > 0).map(over).collect(), crossing)
    }

    fn close(a: &[f64], b: &[f64], within: f64) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= within)
    }

    #[test]
    #[allow(clippy::type_complexity)]
    fn lbs_the_table_of_zones() {
        let all: [(&[u64], &[u64], &[&[f64]], f64); 6] = [
            (&[4, 4, 2], &[5, 10, 5], &[&[62.5, 25.0, 12.5], &[0.0, 100.0, 0.0], &[0.0, 0.0, 100.0]], 15.0),
            (&[6, 3, 1], &[3, 3, 4], &[&[50.0, 0.0, 50.0], &[0.0, 100.0, 0.0], &[0.0, 0.0, 100.0]], 30.0),
            // Envoy's whole numbers give 24.99 and 75.01, and 50.01 across.
            (&[4, 1, 1], &[1, 4, 1], &[&[25.0, 75.0, 0.0], &[0.0, 100.0, 0.0], &[0.0, 0.0, 100.0]], 50.0),
            (&[5, 5, 0], &[4, 4, 2], &[&[80.0, 0.0, 20.0], &[0.0, 80.0, 20.0], &[]], 20.0),
            (
                &[20, 10, 10],
                &[10, 10, 10],
                &[&[66.667, 16.667, 16.667], &[0.0, 100.0, 0.0], &[0.0, 0.0, 100.0]],
                16.667,
            ),
            (&[4, 1], &[1, 4], &[&[25.0, 75.0], &[0.0, 100.0]], 60.0),
        ];
        for (clients, servers, sends, across) in all {
            for (zone, sends) in NAMES.iter().zip(sends).filter(|(_, sends)| !sends.is_empty()) {
                let is = percents(zone, servers, clients);
                assert!(close(&is, sends, 0.001), "{clients:?} {servers:?} {zone}: {is:?}");
            }
            let (load, crossing) = loads(servers, clients);
            assert!(close(&load, &vec![1.0; load.len()], 1e-12), "{clients:?} {servers:?}: {load:?}");
            assert!((crossing - across).abs() < 0.001, "{clients:?} {servers:?}: {crossing}");
        }
    }

    #[test]
    fn lbs_the_row_of_locality_weights() {
        let weights: PerZone = [("a".into(), 1), ("b".into(), 2)].into();
        let listed: PerZone = [("a".into(), 100), ("b".into(), 100)].into();
        for (usable, first) in
            [(100, 33.333), (70, 32.886), (69, 32.569), (50, 25.926), (25, 14.894), (0, 0.0)]
        {
            let shares = weighted(&weights, 140, &listed, |zone| if zone == "a" { usable } else { 100 });
            let is = shares.get("a").map_or(0.0, |share| share.value() * 100.0);
            assert!((is - first).abs() < 0.001, "{usable}: {is}");
        }
        // One that nobody gave a weight has none; one of weight 0 neither.
        let weights: PerZone = [("a".into(), 0), ("b".into(), 2)].into();
        let listed: PerZone = [("a".into(), 1), ("b".into(), 1), ("c".into(), 1)].into();
        let shares = weighted(&weights, 140, &listed, |_| 1);
        assert_eq!(shares.into_iter().collect::<Vec<_>>(), [("b".into(), Share::ONE)]);
        assert!(weighted(&weights, 140, &PerZone::new(), |_| 0).is_empty());
    }

    #[test]
    fn lbs_sets_of_zones_that_differ() {
        // The own zone has no server: everything goes where room is.
        assert!(close(&percents("a", &[0, 6, 2], &[2, 4, 2]), &[0.0, 100.0, 0.0], 1e-9));
        // A zone without clients has room alone; one without servers sends all of its traffic.
        assert!(close(&percents("a", &[3, 3, 0], &[4, 0, 2]), &[75.0, 25.0, 0.0], 1e-9));
        assert!(close(&percents("c", &[3, 3, 0], &[4, 0, 2]), &[0.0, 100.0, 0.0], 1e-9));
        // Nobody at all: what would be sent goes nowhere.
        assert!(close(&percents("a", &[0, 0], &[1, 1]), &[100.0, 0.0], 1e-9));
        assert!(proportional("a", &PerZone::new(), &PerZone::new()).contains_key("a"));
        assert_eq!(folded(Some(" EU-1a ")), folded(Some("eu-1A")));
        assert_eq!(&*folded(None), "");
    }

    proptest! {
        #[test]
        fn lbs_shares_add_up_and_nobody_gets_more_than_its_room(
            servers in proptest::collection::vec(0_u64..40, 4),
            clients in proptest::collection::vec(0_u64..40, 4),
        ) {
            let all: (u64, u64) = (servers.iter().sum(), clients.iter().sum());
            prop_assume!(all.0 > 0 && all.1 > 0);
            for (at, own) in NAMES.iter().enumerate().filter(|(at, _)| clients[*at] > 0) {
                let is = percents(own, &servers, &clients);
                let sum: f64 = is.iter().sum();
                prop_assert!((sum - 100.0).abs() < 1e-6, "{is:?}");
                for (to, percent) in is.iter().enumerate().filter(|(to, _)| *to != at) {
                    #[allow(clippy::cast_precision_loss)]
                    let room = servers[to] as f64 / all.0 as f64 - clients[to] as f64 / all.1 as f64;
                    #[allow(clippy::cast_precision_loss)]
                    let sent = clients[at] as f64 / all.1 as f64 * percent / 100.0;
                    prop_assert!(sent <= room.max(0.0) + 1e-9, "{own} to {to}: {sent} of {room}");
                }
            }
            // Each server gets the same: it is always possible, since what one zone lacks the others have.
            let (load, _) = loads(&servers, &clients);
            prop_assert!(load.iter().all(|load| (load - 1.0).abs() < 1e-9), "{load:?}");
        }

        #[test]
        fn lbs_any_counts(
            servers in proptest::collection::vec(any::<u64>(), 0..5),
            clients in proptest::collection::vec(any::<u64>(), 0..5),
        ) {
            let (servers, clients) = (per_zone(&servers), per_zone(&clients));
            let shares = proportional("a", &servers, &clients);
            let sum: f64 = shares.values().map(|share| share.value()).sum();
            prop_assert!(sum <= 1.0 + 1e-6 && shares.values().all(|share| !share.is_zero()));
            prop_assert!(may_stay(&shares, &shares, "a", &servers, &clients) || !servers.contains_key("a"));
        }

        #[test]
        fn lbs_shares_that_are_kept_are_never_far_off(
            steps in proptest::collection::vec((proptest::collection::vec(1_u64..60, 3), proptest::collection::vec(1_u64..60, 3)), 1..30),
        ) {
            let mut held: Option<Shares> = None;
            let (mut moved, mut kept) = (0, 0);
            for (servers, clients) in &steps {
                let (servers, clients) = (per_zone(servers), per_zone(clients));
                let new = proportional("a", &servers, &clients);
                // The same counts twice move nothing the second time.
                for _ in 0..2 {
                    match &held {
                        Some(old) if may_stay(old, &new, "a", &servers, &clients) => kept += 1,
                        _ => {
                            moved += 1;
                            held = Some(new.clone());
                        }
                    }
                }
                let old = held.as_ref().unwrap();
                #[allow(clippy::cast_precision_loss)]
                let part = |of: &PerZone, zone: &str| of[zone] as f64 / of.values().sum::<u64>() as f64;
                for zone in ["a", "b", "c"] {
                    let share = |of: &Shares| of.get(zone).map_or(0.0, |share| share.value());
                    let too_much = part(&clients, "a") * (share(old) - share(&new)).abs();
                    prop_assert!(too_much <= BAND * part(&servers, zone) + 1e-12);
                }
            }
            prop_assert!(moved <= steps.len() && kept >= steps.len());
        }

        #[test]
        fn lbs_two_counts_that_differ_little_move_nothing_back_and_forth(
            servers in proptest::collection::vec(40_u64..80, 3),
            clients in proptest::collection::vec(40_u64..80, 3),
            at in 0_usize..3,
        ) {
            let other: Vec<u64> = servers.iter().enumerate().map(|(n, c)| if n == at { c - 1 } else { *c }).collect();
            let clients = per_zone(&clients);
            let (one, two) = (per_zone(&servers), per_zone(&other));
            let held = proportional("a", &one, &clients);
            for servers in [&two, &one, &two] {
                let new = proportional("a", servers, &clients);
                prop_assert!(may_stay(&held, &new, "a", servers, &clients));
            }
        }
    }
}
