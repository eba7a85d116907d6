//! 3.10 Subset: cases 91 to 102.

use std::collections::BTreeSet;

use evenkeel::config::{
    Format, LoadBalancerProperties, Properties, StageName, SubsetAlgorithm, SubsetProperties,
};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::Subset;
use evenkeel::{ServiceInstance, ServiceInstanceListSupplier, SupplierBuilder};
use futures_util::StreamExt;

use crate::support::*;

fn numbered(n: usize) -> Vec<ServiceInstance> {
    (0..n).map(|at| instance(&at.to_string())).collect()
}

/// The numbers that the chain leaves of a list, in order.
async fn left(n: usize, subset: Subset) -> Vec<usize> {
    let chain = SupplierBuilder::new("orders").with_instances(numbered(n)).with_subset(subset);
    let list = chain.build().unwrap().get().next().await.unwrap().unwrap();
    list.iter().map(|instance| instance.id().parse().unwrap()).collect()
}

fn of(size: usize, client: &str) -> Subset {
    Subset::of_size(size).with_client(client)
}

fn spring(size: usize, client: &str) -> Subset {
    of(size, client).with_algorithm(SubsetAlgorithm::Spring)
}

/// The numbers that a chain of these properties leaves of 101.
async fn left_by(properties: &Properties) -> Vec<usize> {
    let effective = properties.effective("orders");
    let chain = SupplierBuilder::new("orders").with_instances(numbered(101)).with_properties(&effective);
    let list = chain.build().unwrap().get().next().await.unwrap().unwrap();
    list.iter().map(|instance| instance.id().parse().unwrap()).collect()
}

fn yaml(id: &str) -> Properties {
    let text = format!(
        "foo: foobar\nspring.cloud.loadbalancer:\n  configurations: subset\n  subset:\n    size: 5\n    \
         algorithm: spring\n    instance-id: {id}\n"
    );
    Properties::parse(&text, Format::Yaml, "application.yml").unwrap()
}

#[tokio::test(start_paused = true)]
async fn scl_091_the_id_may_be_a_placeholder() {
    let properties = yaml("${foo}");
    assert_eq!(properties.effective("orders").subset.instance_id.as_deref(), Some("foobar"));
    assert_eq!(left_by(&properties).await, [0, 74, 10, 72, 62]);
}

#[tokio::test(start_paused = true)]
async fn scl_092_without_an_id_the_one_of_the_process_counts() {
    let known = [
        ("SPRING_CLOUD_CLIENT_HOSTNAME", "myhost"),
        ("SPRING_APPLICATION_NAME", "app"),
        ("SERVER_PORT", "8080"),
    ];
    let properties = yaml("''").with_environment(known).unwrap();
    assert_eq!(properties.effective("orders").subset.instance_id.as_deref(), Some("myhost:app:8080"));
    assert_eq!(left_by(&properties).await, [1, 2, 77, 14, 43]);
}

#[tokio::test(start_paused = true)]
async fn scl_093_of_nothing_nothing_is_left() {
    for subset in [of(5, "foobar"), spring(5, "foobar"), Subset::of_size(5).with_ordinal(7)] {
        assert!(left(0, subset).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn scl_094_a_long_list_is_cut_to_the_size() {
    for subset in [of(5, "foobar"), spring(5, "foobar"), Subset::of_size(5).with_ordinal(7)] {
        let members: BTreeSet<_> = left(101, subset).await.into_iter().collect();
        assert_eq!(members.len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_095_a_list_shorter_than_the_size_stays() {
    for subset in [of(1_000, "foobar"), spring(1_000, "foobar"), Subset::of_size(1_000).with_ordinal(7)] {
        assert_eq!(left(101, subset).await, (0..101).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn scl_096_one_id_means_one_subset() {
    for subset in [of(5, "foobar"), spring(5, "foobar"), Subset::of_size(5).with_ordinal(7)] {
        assert_eq!(left(101, subset.clone()).await, left(101, subset).await);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_097_two_ids_mean_two_subsets() {
    assert_ne!(left(101, of(5, "foobar1")).await, left(101, of(5, "foobar2")).await);
    assert_ne!(left(101, spring(5, "foobar1")).await, left(101, spring(5, "foobar2")).await);
    let ordinal = |ordinal| Subset::of_size(5).with_ordinal(ordinal);
    assert_ne!(left(101, ordinal(1)).await, left(101, ordinal(2)).await);
}

#[tokio::test(start_paused = true)]
async fn scl_098_springs_algorithm_to_the_bit() {
    for (client, [n101, n10, n6, n7, n4]) in [
        ("foobar", [&[0, 74, 10, 72, 62][..], &[5, 0, 6], &[2, 4, 3], &[4, 5, 3], &[1, 0, 3]]),
        ("foobar1", [&[9, 67, 76, 31, 91], &[2, 5, 4], &[3, 0, 1], &[2, 6, 1], &[1, 3, 2]]),
        ("foobar2", [&[27, 43, 97, 60, 30], &[4, 5, 7], &[5, 4, 2], &[4, 0, 3], &[2, 3, 1]]),
        ("client-1", [&[86, 67, 98, 64, 16], &[8, 4, 1], &[2, 4, 1], &[3, 1, 2], &[3, 2, 1]]),
        ("myhost:app:8080", [&[1, 2, 77, 14, 43], &[2, 8, 3], &[0, 4, 1], &[3, 1, 0], &[1, 2, 0]]),
    ] {
        assert_eq!(left(101, spring(5, client)).await, n101, "{client}");
        for (n, expected) in [(10, n10), (6, n6), (7, n7), (4, n4)] {
            assert_eq!(left(n, spring(3, client)).await, expected, "{client}, {n} instances");
        }
        assert_eq!(left(3, spring(3, client)).await, [0, 1, 2], "{client}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_099_a_list_as_long_as_the_size_keeps_its_order() {
    for subset in [of(5, "foobar"), spring(5, "foobar"), Subset::of_size(5).with_ordinal(7)] {
        assert_eq!(left(5, subset).await, [0, 1, 2, 3, 4]);
    }
}

#[tokio::test(start_paused = true)]
async fn scl_100_a_list_without_a_request_is_the_one_that_an_empty_request_sees() {
    let lb = fixed(numbered(101), |chain| chain.with_subset(spring(5, "foobar")), RoundRobin::default());
    let seen: BTreeSet<String> = picks(&lb, 50).await.into_iter().collect();
    let without: BTreeSet<String> =
        left(101, spring(5, "foobar")).await.iter().map(usize::to_string).collect();
    assert_eq!(seen, without);
}

#[tokio::test(start_paused = true)]
async fn scl_101_without_an_id_the_process_draws_one() {
    let properties = LoadBalancerProperties::default()
        .with_configurations([StageName::Subset])
        .with_subset(SubsetProperties::default().with_size(5));
    let of_process = || async {
        let chain = SupplierBuilder::new("orders").with_instances(numbered(101)).with_properties(&properties);
        let list = chain.build().unwrap().get().next().await.unwrap().unwrap();
        list.iter().map(|instance| instance.id().to_owned()).collect::<Vec<_>>()
    };
    let first = of_process().await;
    assert_eq!((first.len(), &first), (5, &of_process().await), "one id for all chains of the process");
    let lb = fixed(numbered(101), |chain| chain.with_subset(5), RoundRobin::default());
    lb.ready().await.unwrap();
    assert_eq!(lb.snapshot().unwrap().len(), 5);
}

#[test]
fn scl_102_the_id_of_the_process_is_made_of_what_is_known() {
    const HOST: (&str, &str) = ("spring.cloud.client.hostname", "myhost");
    const NAME: (&str, &str) = ("spring.application.name", "app");
    const PORT: (&str, &str) = ("server.port", "80");
    const PLATFORM: (&str, &str) = ("vcap.application.instance_id", "platform-1");
    for (known, expected) in [
        (&[][..], None),
        (&[PLATFORM, HOST, NAME, PORT], Some("platform-1")),
        (&[HOST], Some("myhost")),
        (&[NAME], Some("app")),
        (&[HOST, NAME], Some("myhost:app")),
        (&[NAME, PORT], Some("app:80")),
        (&[HOST, NAME, PORT], Some("myhost:app:80")),
    ] {
        let mut properties = Properties::default();
        for (key, value) in known {
            properties = properties.set(key, value).unwrap();
        }
        assert_eq!(properties.effective("orders").subset.instance_id.as_deref(), expected, "{known:?}");
    }
}
