use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SERVICE: &str = "orders";

fn numbered(numbers: impl IntoIterator<Item = usize>) -> Vec<ServiceInstance> {
    let one = |n: usize| {
        let host = format!("10.0.{}.{}", n / 250, n % 250);
        ServiceInstance::builder(host).port(8080).id(format!("{n}")).build().unwrap()
    };
    numbers.into_iter().map(one).collect()
}

fn of(subset: &Subset, mut list: Vec<ServiceInstance>) -> Vec<usize> {
    subset.apply(&mut list, &StageCx::new(&ServiceId::new(SERVICE).unwrap(), None));
    list.iter().map(|instance| instance.id().parse().unwrap()).collect()
}

fn sorted(mut list: Vec<usize>) -> Vec<usize> {
    list.sort_unstable();
    list
}

fn gone(before: &[usize], after: &[usize]) -> usize {
    before.iter().filter(|member| !after.contains(member)).count()
}

/// How many clients each of `n` instances has.
fn loads(clients: &[Subset], n: usize) -> Vec<usize> {
    let mut loads = vec![0; n];
    for client in clients {
        for member in of(client, numbered(0..n)) {
            loads[member] += 1;
        }
    }
    loads
}

#[allow(clippy::cast_precision_loss)]
fn deviation(loads: &[usize]) -> f64 {
    let mean = loads.iter().sum::<usize>() as f64 / loads.len() as f64;
    (loads.iter().map(|load| (*load as f64 - mean).powi(2)).sum::<f64>() / loads.len() as f64).sqrt()
}

fn by_name(count: usize, size: usize) -> Vec<Subset> {
    (0..count).map(|at| Subset::of_size(size).with_client(format!("client-{at}"))).collect()
}

fn by_number(count: u32, size: usize) -> Vec<Subset> {
    (0..count).map(|at| Subset::of_size(size).with_ordinal(at)).collect()
}

#[test]
fn rendezvous_changes_only_who_had_the_one_that_left() {
    let clients = by_name(300, 10);
    let mut replaced = 0;
    for client in &clients {
        let before = of(client, numbered(0..100));
        let after = of(client, numbered((0..100).filter(|n| *n != 50)));
        let left = gone(&before, &after);
        assert_eq!(left, usize::from(before.contains(&50)));
        replaced += left;
    }
    assert!((20..=40).contains(&replaced), "30 of 3000 is the ideal: {replaced}");
    let loads = loads(&clients, 100);
    let (least, most, deviation) =
        (loads.iter().min().unwrap(), loads.iter().max().unwrap(), deviation(&loads));
    assert!(*least >= 12 && *most <= 50 && deviation < 6.5, "{least} to {most}, deviation {deviation:.2}");
}

#[test]
fn lots_are_even_and_change_less_than_one_member_on_the_mean() {
    let clients = by_number(300, 10);
    let (mut replaced, mut most) = (0, 0);
    for client in &clients {
        let before = of(client, numbered(0..100));
        let after = of(client, numbered((0..100).filter(|n| *n != 50)));
        let left = gone(&before, &after);
        most = most.max(left);
        replaced += left;
    }
    assert!(most <= 2 && replaced < 150, "at most {most}, {replaced} of 3000 in all");
    let loads = loads(&clients, 100);
    let (least, most, deviation) =
        (loads.iter().min().unwrap(), loads.iter().max().unwrap(), deviation(&loads));
    assert!(*least >= 25 && *most <= 35 && deviation < 2.2, "{least} to {most}, deviation {deviation:.2}");
}

#[test]
fn a_whole_lot_is_even_within_one() {
    for (n, size) in [(100, 10), (101, 7), (33, 5), (1_000, 31), (40, 39)] {
        let loads = loads(&by_number(32, size), n);
        let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        assert!(most - least <= 1, "{n} instances, subsets of {size}: {least} to {most}");
    }
}

#[test]
fn low_churn_schemes_do_not_change_between_versions() {
    let by = |subset: Subset| sorted(of(&subset, numbered(0..20)));
    assert_eq!(by(Subset::of_size(4).with_client("client-1")), PINNED[0]);
    assert_eq!(by(Subset::of_size(4).with_ordinal(0)), PINNED[1]);
    assert_eq!(by(Subset::of_size(4).with_ordinal(33)), PINNED[2]);
}

const PINNED: [[usize; 4]; 3] = [[2, 8, 14, 15], [2, 5, 7, 15], [1, 5, 10, 13]];

#[test]
fn an_ordinal_makes_springs_scheme_even() {
    let clients: Vec<_> =
        by_number(300, 10).into_iter().map(|client| client.with_algorithm(SubsetAlgorithm::Spring)).collect();
    assert!(loads(&clients, 100).iter().all(|load| *load == 30));
}

#[test]
fn a_client_without_an_id_gets_one_of_the_process() {
    let service = ServiceId::new(SERVICE).unwrap();
    let [a, b] = [(); 2].map(|()| Subset::of_size(3).identified(&service, None));
    assert!(a.client().is_some_and(|id| id.len() == 16));
    assert_eq!(a, b, "once for the process");
    let seeded = |seed| Subset::of_size(3).identified(&service, Some(seed));
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    let known = Subset::of_size(3).with_client("c");
    assert_eq!(known.clone().identified(&service, Some(1)), known);
    let numbered = Subset::of_size(3).with_ordinal(1);
    assert_eq!(numbered.clone().identified(&service, Some(1)), numbered);
}

fn any_subset() -> impl Strategy<Value = Subset> {
    let client = prop_oneof![
        ".{0,12}".prop_map(|id| Subset::default().with_client(id)),
        any::<u32>().prop_map(|ordinal| Subset::default().with_ordinal(ordinal)),
    ];
    let algorithm = prop_oneof![Just(SubsetAlgorithm::LowChurn), Just(SubsetAlgorithm::Spring)];
    (client, algorithm, 1_usize..40)
        .prop_map(|(subset, algorithm, size)| Subset { size, ..subset }.with_algorithm(algorithm))
}

proptest! {
    #[test]
    fn a_subset_is_a_part_of_the_right_length(subset in any_subset(), n in 0_usize..120) {
        let list = of(&subset, numbered(0..n));
        prop_assert_eq!(list.len(), n.min(subset.size));
        let counts: BTreeSet<_> = list.iter().collect();
        prop_assert_eq!(counts.len(), list.len(), "nobody twice");
        if n <= subset.size {
            prop_assert_eq!(list, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn low_churn_knows_no_order(subset in any_subset(), n in 1_usize..120, seed in any::<u64>()) {
        let subset = subset.with_algorithm(SubsetAlgorithm::LowChurn);
        let mut mixed: Vec<usize> = (0..n).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut mixed);
        let shuffled = of(&subset, numbered(mixed.iter().copied()));
        prop_assert_eq!(sorted(of(&subset, numbered(0..n))), sorted(shuffled));
    }

    #[test]
    fn low_churn_changes_at_most_one_member_by_rendezvous_and_two_in_lots(
        subset in any_subset(), n in 2_usize..120, who in any::<prop::sample::Index>(),
    ) {
        let subset = subset.with_algorithm(SubsetAlgorithm::LowChurn);
        let who = who.index(n);
        let before = of(&subset, numbered(0..n));
        let after = of(&subset, numbered((0..n).filter(|at| *at != who)));
        let most = if subset.ordinal.is_some() { 2 } else { usize::from(before.contains(&who)) };
        prop_assert!(gone(&before, &after) <= most);
        // The other way round: one comes.
        prop_assert!(gone(&after, &before) <= most.max(1));
    }
}
