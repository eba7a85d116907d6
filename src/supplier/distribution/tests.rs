use std::net::IpAddr;

use super::settings::Proportional;
use super::*;
use proptest::prelude::*;

const ZONES: [&str; 4] = ["a", "b", "c", ""];

fn at(n: usize, zone: &str, priority: u32) -> ServiceInstance {
    let host = format!("10.0.{}.{}", n / 200, n % 200 + 1);
    ServiceInstance::builder(host).port(80).zone(zone).priority(priority).build().unwrap()
}

/// So many instances of each zone.
fn zoned(counts: &[usize]) -> Vec<ServiceInstance> {
    let zones = ZONES.iter().zip(counts).flat_map(|(zone, count)| std::iter::repeat_n(*zone, *count));
    zones.enumerate().map(|(n, zone)| at(n, zone, 0)).collect()
}

fn candidates(list: &[ServiceInstance]) -> Vec<Candidate<'_>> {
    let one = |instance| Candidate { instance, weight: 1_000, standing: Standing::Healthy };
    list.iter().map(one).collect()
}

fn everybody(candidates: &[Candidate<'_>]) -> impl FnMut(&[usize]) -> Vec<(usize, u64)> {
    let weights: Vec<u64> = candidates.iter().map(|candidate| candidate.weight).collect();
    move |members| members.iter().map(|at| (*at, weights[*at])).collect()
}

fn in_proportion(own: &str, clients: &[u64]) -> Settings {
    let fleet = OwnFleet::fixed(ZONES.iter().copied().zip(clients.iter().copied()));
    let proportional =
        Proportional { own: Some(own.to_owned()), addresses: None, min_cluster_size: 6, fleet: Some(fleet) };
    Settings { proportional: Some(proportional), ..Settings::default() }
}

fn allot(settings: Settings, candidates: &[Candidate<'_>]) -> Allotted {
    Distribution::new(settings, None).allot("", candidates, &mut everybody(candidates))
}

/// What each candidate gets, in percent.
#[allow(clippy::cast_precision_loss)]
fn percents(allotted: &Allotted, of: usize) -> Vec<f64> {
    let total: u64 = allotted.used.iter().map(|(_, weight)| weight).sum();
    let mut all = vec![0.0; of];
    for (at, weight) in &allotted.used {
        all[*at] = *weight as f64 / total as f64 * 100.0;
    }
    all
}

fn zone_percents(allotted: &Allotted, candidates: &[Candidate<'_>]) -> [f64; 4] {
    let of = percents(allotted, candidates.len());
    ZONES.map(|zone| {
        let is_in = |at: &usize| candidates[*at].instance.zone().unwrap_or_default() == zone;
        (0..candidates.len()).filter(is_in).map(|at| of[at]).sum()
    })
}

#[track_caller]
fn close(is: &[f64], expected: &[f64]) {
    assert!(is.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.001), "{is:?}, not {expected:?}");
}

fn off(allotted: &Allotted) -> Option<ZoneOff> {
    allotted.report.zones_off().cloned()
}

#[test]
fn lbs_proportional_zones_as_weights() {
    let list = zoned(&[10, 10, 10]);
    let all = candidates(&list);
    let allotted = allot(in_proportion("A", &[20, 10, 10]), &all);
    close(&zone_percents(&allotted, &all), &[66.6667, 16.6667, 16.6667, 0.0]);
    // Exact: 4 to 1 to 1, where Envoy has 66.66 of 100.
    assert_eq!((allotted.used[0].1, allotted.used[10].1, allotted.used[20].1), (4_000, 1_000, 1_000));
    assert_eq!(allotted.whole.len(), 30);
    let ZoneUse::Proportional { own, shares } = &allotted.report.priorities()[0].zones else {
        panic!("{:?}", allotted.report)
    };
    assert_eq!((own.as_str(), shares.len(), shares[0].instances, shares[0].clients), ("a", 3, 10, Some(20)));
    // Others stay at home, and nobody of another zone is in the table.
    let home = allot(in_proportion("b", &[20, 10, 10]), &all);
    close(&zone_percents(&home, &all), &[0.0, 100.0, 0.0, 0.0]);
    assert_eq!((home.used.len(), home.whole.len()), (10, 30));
}

#[test]
fn lbs_a_zones_part_goes_by_its_instances_own_weights() {
    // Zone a has 3 of 9 by weight, and 4 of 8 of the clients: 2/3 stay, and the rest goes to b.
    let list = zoned(&[2, 4]);
    let mut all = candidates(&list);
    all[0].weight = 2_000;
    all[2].weight = 3_000;
    let allotted = allot(in_proportion("a", &[4, 4]), &all);
    close(&percents(&allotted, 6), &[44.444, 22.222, 16.667, 5.556, 5.556, 5.556]);
}

#[test]
fn lbs_every_precondition_has_its_reason() {
    let list = zoned(&[3, 3]);
    let all = candidates(&list);
    let with = |change: fn(&mut Proportional)| {
        let mut settings = in_proportion("a", &[4, 2]);
        change(settings.proportional.as_mut().unwrap());
        allot(settings, &all)
    };
    assert_eq!(off(&with(|_| {})), None);
    for (change, reason) in [
        ((|p| p.fleet = None) as fn(&mut Proportional), ZoneOff::NoOwnFleet),
        (|p| p.fleet = Some(OwnFleet::fixed([("a", 9)])), ZoneOff::ClientsInOneZone),
        (|p| p.fleet = Some(OwnFleet::fixed([("a", 9), ("", 9)])), ZoneOff::ClientsInOneZone),
        (|p| p.fleet = Some(OwnFleet::fixed([("b", 9), ("c", 9)])), ZoneOff::NoClientInOwnZone),
        (|p| p.fleet = Some(OwnFleet::fixed([("a", 0), ("b", 9), ("c", 1)])), ZoneOff::NoClientInOwnZone),
        (|p| p.min_cluster_size = 7, ZoneOff::TooFewServers { usable: 6, least: 7 }),
        (
            |p| {
                p.own = Some(" ".to_owned());
                p.addresses = Some([IpAddr::from([10, 9, 9, 9])].into());
            },
            ZoneOff::OwnZoneUnknown,
        ),
    ] {
        let plain = with(change);
        assert_eq!(off(&plain), Some(reason.clone()));
        // Then it is as if there were no zones.
        close(&percents(&plain, 6), &[16.667; 6]);
        assert!(!reason.to_string().is_empty());
    }
    let one_zone = zoned(&[6, 0, 0, 3]);
    assert_eq!(
        off(&allot(in_proportion("a", &[4, 2]), &candidates(&one_zone))),
        Some(ZoneOff::ServersInOneZone)
    );
    let fleet = OwnFleet::supplied(SupplierlessFleet::of("me"));
    let unknown = Proportional { fleet: Some(fleet), ..in_proportion("a", &[]).proportional.unwrap() };
    let reason = off(&allot(Settings { proportional: Some(unknown), ..Settings::default() }, &all)).unwrap();
    assert!(matches!(&reason, ZoneOff::OwnFleetUnknown(why) if why.contains("not looked up")), "{reason}");
}

/// A chain over a list that nobody asks for.
struct SupplierlessFleet;

impl SupplierlessFleet {
    fn of(service: &str) -> super::super::Supplier {
        super::super::SupplierBuilder::new(service).with_instances([]).build().unwrap()
    }
}

#[test]
fn lbs_priorities_as_weights() {
    // Half of priority 0 fails: 70 of 100 stay with the other half.
    let list: Vec<_> = (0..20).map(|n| at(n, "a", u32::from(n >= 10))).collect();
    let mut all = candidates(&list);
    all.iter_mut().take(5).for_each(|one| one.standing = Standing::Failing);
    let settings = || Settings { priorities: true, threshold: 50, ..Settings::default() };
    let allotted = allot(settings(), &all);
    let of = percents(&allotted, 20);
    close(&of[..10], &[0.0, 0.0, 0.0, 0.0, 0.0, 14.0, 14.0, 14.0, 14.0, 14.0]);
    close(&of[10..], &[3.0; 10]);
    assert_eq!(allotted.whole, (5..20).collect::<Vec<_>>());
    let [first, second] = allotted.report.priorities() else { panic!("two priorities") };
    assert_eq!((first.health, first.listed, first.healthy, first.panic), (70, 10, 5, false));
    assert_eq!((second.priority, second.health, second.panic), (1, 100, false));
    close(&[first.load, second.load], &[0.7, 0.3]);
    // With everybody well nobody of the second is called, and it is still there to turn to.
    let well = candidates(&list);
    let allotted = allot(settings(), &well);
    assert_eq!((allotted.used.len(), allotted.whole.len()), (10, 20));
}

#[test]
fn lbs_panic_uses_all_that_are_not_down() {
    // 5 % and 65 %: the first is in panic and gets 8 of 100, on all that may be called.
    let list: Vec<_> = (0..40).map(|n| at(n, "a", u32::from(n >= 20))).collect();
    let mut all = candidates(&list);
    all.iter_mut().take(19).for_each(|one| one.standing = Standing::Failing);
    all[0].standing = Standing::Down;
    all.iter_mut().skip(20).take(7).for_each(|one| one.standing = Standing::Failing);
    let settings = |threshold| Settings { priorities: true, threshold, ..Settings::default() };
    let allotted = allot(settings(50), &all);
    let of = percents(&allotted, 40);
    close(&of[..2], &[0.0, 8.0 / 19.0]);
    close(&of[19..20], &[8.0 / 19.0]);
    close(&of[20..28], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 92.0 / 13.0]);
    assert!(allotted.report.is_panic() && !allotted.report.is_total_panic());
    // Without: only the one that is well.
    let of = percents(&allot(settings(0), &all), 40);
    close(&of[18..20], &[0.0, 8.0]);
    // All in panic: by numbers of instances, of those that may be called.
    for one in &mut all {
        one.standing = Standing::Failing;
    }
    all[0].standing = Standing::Down;
    let allotted = allot(settings(50), &all);
    close(&percents(&allotted, 40)[..2], &[0.0, 100.0 / 39.0]);
    assert!(allotted.report.is_total_panic());
    // Nobody may be called at all: nobody is.
    for one in &mut all {
        one.standing = Standing::Down;
    }
    let nobody = allot(settings(50), &all);
    assert!(nobody.used.is_empty() && nobody.whole.is_empty());
}

#[test]
fn lbs_zones_do_not_count_in_panic() {
    let list = zoned(&[6, 6]);
    let mut all = candidates(&list);
    all.iter_mut().take(5).for_each(|one| one.standing = Standing::Failing);
    all.iter_mut().skip(6).take(3).for_each(|one| one.standing = Standing::Failing);
    let allotted = allot(Settings { threshold: 50, ..in_proportion("a", &[9, 3]) }, &all);
    assert_eq!(off(&allotted), Some(ZoneOff::Panic));
    close(&percents(&allotted, 12), &[8.333; 12]);
    let mut weighted = Settings { threshold: 50, ..Settings::default() };
    weighted.weigh_zones([("a".to_owned(), 9), ("b".to_owned(), 1)]);
    close(&percents(&allot(weighted, &all), 12), &[8.333; 12]);
}

#[test]
fn lbs_locality_weights_as_weights() {
    let list = zoned(&[10, 10, 2]);
    let mut all = candidates(&list);
    let settings = || {
        let mut settings = Settings::default();
        settings.weigh_zones([("A".to_owned(), 1), ("b".to_owned(), 2)]);
        settings
    };
    close(&zone_percents(&allot(settings(), &all), &all), &[33.333, 66.667, 0.0, 0.0]);
    for (failing, first) in [(3, 32.886), (5, 25.926), (10, 0.0)] {
        all.iter_mut().take(failing).for_each(|one| one.standing = Standing::Failing);
        close(&zone_percents(&allot(settings(), &all), &all), &[first, 100.0 - first, 0.0, 0.0]);
    }
    // When nobody is left where weights are, the others are all there is.
    all.iter_mut().take(20).for_each(|one| one.standing = Standing::Failing);
    close(&zone_percents(&allot(settings(), &all), &all), &[0.0, 0.0, 100.0, 0.0]);
}

#[test]
fn degraded_ones_are_used_after_all_others_or_only_if_nobody_is_better() {
    let list = zoned(&[10]);
    let mut all = candidates(&list);
    all.iter_mut().take(5).for_each(|one| one.standing = Standing::Degraded);
    let of = percents(&allot(Settings { priorities: true, ..Settings::default() }, &all), 10);
    close(&of, &[6.0, 6.0, 6.0, 6.0, 6.0, 14.0, 14.0, 14.0, 14.0, 14.0]);
    // Without priorities the law of the status holds.
    let of = percents(&allot(Settings { threshold: 50, ..Settings::default() }, &all), 10);
    close(&of, &[0.0, 0.0, 0.0, 0.0, 0.0, 20.0, 20.0, 20.0, 20.0, 20.0]);
    all.iter_mut().skip(5).for_each(|one| one.standing = Standing::Failing);
    let of = percents(&allot(Settings { threshold: 50, ..Settings::default() }, &all), 10);
    close(&of, &[20.0, 20.0, 20.0, 20.0, 20.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn lbs_a_server_that_flaps_switches_nothing() {
    let (six, five, four) = (zoned(&[3, 3]), zoned(&[3, 2]), zoned(&[2, 2]));
    let distribution = Distribution::new(in_proportion("a", &[4, 2]), None);
    let state = |list: &[ServiceInstance]| {
        let all = candidates(list);
        off(&distribution.allot("", &all, &mut everybody(&all)))
    };
    let too_few = |usable| Some(ZoneOff::TooFewServers { usable, least: 6 });
    assert_eq!(state(&five), too_few(5), "it comes on at six");
    for _ in 0..3 {
        assert_eq!((state(&six), state(&five)), (None, None));
    }
    assert_eq!((state(&four), state(&five), state(&six)), (too_few(4), too_few(5), None));
    // Who takes its place goes on from there.
    let next = Distribution::new(in_proportion("a", &[4, 2]), None);
    next.inherit(&distribution);
    let all = candidates(&five);
    assert_eq!(off(&next.allot("", &all, &mut everybody(&all))), None);
    next.retain(|key| key == "another");
    assert_eq!(off(&next.allot("", &all, &mut everybody(&all))), too_few(5));
}

#[test]
fn lbs_a_large_fleet_that_flaps_moves_nothing() {
    let (one, two) = (zoned(&[100, 100, 100]), zoned(&[100, 99, 100]));
    let distribution = Distribution::new(in_proportion("a", &[50, 30, 20]), None);
    let shares = |list: &[ServiceInstance]| {
        let all = candidates(list);
        zone_percents(&distribution.allot("", &all, &mut everybody(&all)), &all)
    };
    let first = shares(&one);
    for list in [&two, &one, &two] {
        close(&shares(list), &first);
    }
    // One that matters is followed at once.
    let fewer = zoned(&[100, 60, 100]);
    assert!((shares(&fewer)[1] - first[1]).abs() > 1.0);
}

#[test]
fn what_a_stage_leaves_of_a_zone_gets_the_zones_part() {
    let list = zoned(&[5, 10, 5]);
    let all = candidates(&list);
    let distribution = Distribution::new(in_proportion("a", &[4, 4, 2]), None);
    // A subset without anybody in the third zone: its part goes to the others, in proportion to theirs.
    let keep = [0, 1, 5, 6, 7];
    let allotted = distribution.allot("", &all, &mut |members| {
        members.iter().filter(|at| keep.contains(at)).map(|at| (*at, 1_000)).collect()
    });
    let of = zone_percents(&allotted, &all);
    close(&of, &[62.5 / 0.875, 25.0 / 0.875, 0.0, 0.0]);
    assert_eq!(allotted.used.len(), 5);
    // One that leaves nobody is passed over.
    let allotted = distribution.allot("", &all, &mut |_| Vec::new());
    close(&zone_percents(&allotted, &all), &[62.5, 25.0, 12.5, 0.0]);
}

fn standings() -> impl Strategy<Value = Standing> {
    prop_oneof![
        4 => Just(Standing::Healthy),
        1 => Just(Standing::Degraded),
        1 => Just(Standing::Failing),
        1 => Just(Standing::Down),
    ]
}

proptest! {
    #[test]
    fn any_list_is_divided_whole(
        list in proptest::collection::vec((0_usize..4, 0_u32..3, 1_u64..5_000, standings()), 0..40),
        clients in proptest::collection::vec(0_u64..9, 4),
        (priorities, threshold, mode) in (any::<bool>(), 0_u64..=100, 0_u8..3),
    ) {
        let instances: Vec<_> = list.iter().enumerate().map(|(n, of)| at(n, ZONES[of.0], of.1)).collect();
        let all: Vec<Candidate<'_>> = instances
            .iter()
            .zip(&list)
            .map(|(instance, of)| Candidate { instance, weight: of.2, standing: of.3 })
            .collect();
        let mut settings = if mode == 1 { in_proportion("a", &clients) } else { Settings::default() };
        if mode == 2 {
            settings.weigh_zones([("a".to_owned(), 3), ("b".to_owned(), 0), ("c".to_owned(), 1)]);
        }
        (settings.priorities, settings.threshold) = (priorities, threshold);
        let allotted = allot(settings, &all);
        let callable = |at: usize| all[at].standing.is_callable();
        for (at, weight) in &allotted.used {
            prop_assert!(*weight > 0 && callable(*at) && allotted.whole.contains(at));
            let in_panic = allotted.report.is_panic();
            prop_assert!(all[*at].standing.is_available() || in_panic);
        }
        prop_assert!(allotted.used.is_sorted_by_key(|(at, _)| *at) && allotted.whole.is_sorted());
        let available = (0..all.len()).filter(|at| all[*at].standing.is_available());
        for at in available {
            prop_assert!(allotted.whole.contains(&at) && !allotted.used.is_empty());
        }
        prop_assert_eq!(allotted.whole.is_empty(), !(0..all.len()).any(callable));
        // Loads add up to all of it, and so do the shares of zones.
        if !allotted.used.is_empty() {
            let load: f64 = allotted.report.priorities().iter().map(|of| of.load).sum();
            prop_assert!((load - 1.0).abs() < 1e-9, "{:?}", allotted.report);
        }
        for of in allotted.report.priorities() {
            if let ZoneUse::Proportional { shares, .. } = &of.zones {
                let sum: f64 = shares.iter().map(|share| share.share).sum();
                prop_assert!((sum - 1.0).abs() < 1e-9);
            }
        }
    }
}
