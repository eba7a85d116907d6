//! Lists of instances.

use evenkeel::ServiceInstance;

/// A list as a registry gives it that knows nothing but addresses, in the order of the addresses.
pub fn plain(n: usize) -> Vec<ServiceInstance> {
    (0..n).map(|at| instance(at, None)).collect()
}

/// The same with zones, weights, hints and versions in the metadata.
pub fn tagged(n: usize) -> Vec<ServiceInstance> {
    (0..n).map(|at| tagged_instance(at, None)).collect()
}

/// Weights from 1 to 100, and zones.
pub fn heavy(n: usize) -> Vec<ServiceInstance> {
    let one = |at: usize| {
        let weight = (at * 37 % 100 + 1).to_string();
        let zone = ["eu-1a", "eu-1b", "eu-1c"][at % 3];
        builder(at, None).with_metadata("weight", weight).zone(zone).build().expect("a valid instance")
    };
    (0..n).map(one).collect()
}

/// What every stage looks at: zones, hints and API versions in the metadata; weights are alike.
pub fn versioned(n: usize) -> Vec<ServiceInstance> {
    let of = |at: usize, all: &[&'static str]| all[at % all.len()];
    let one = |at: usize| {
        let metadata = [
            ("zone", of(at, &["eu-1a", "eu-1b", "eu-1c"])),
            ("weight", "1"),
            ("hint", of(at, &["blue", "green"])),
            ("API_VERSION", if at % 4 < 2 { "1.0" } else { "2.0" }),
            ("version", if at.is_multiple_of(10) { "canary" } else { "stable" }),
        ];
        builder(at, None)
            .metadata(metadata.into_iter().collect::<evenkeel::Metadata>())
            .build()
            .expect("a valid instance")
    };
    (0..n).map(one).collect()
}

/// A plain list in which one instance, in the middle, was replaced by another.
pub fn plain_replaced(n: usize) -> Vec<ServiceInstance> {
    let at = |at| if at == n / 2 { instance(at, Some("new")) } else { instance(at, None) };
    (0..n).map(at).collect()
}

/// A tagged list in which one instance, in the middle, was replaced by another.
pub fn tagged_replaced(n: usize) -> Vec<ServiceInstance> {
    let at = |at| if at == n / 2 { tagged_instance(at, Some("new")) } else { tagged_instance(at, None) };
    (0..n).map(at).collect()
}

fn instance(at: usize, id: Option<&str>) -> ServiceInstance {
    builder(at, id).build().expect("a valid instance")
}

fn builder(at: usize, id: Option<&str>) -> evenkeel::ServiceInstanceBuilder {
    let host = format!("10.{}.{}.{}", at / 62_500, at / 250 % 250, at % 250 + 1);
    let builder = ServiceInstance::builder(host).port(8080);
    match id {
        Some(id) => builder.id(format!("i-{at:05}-{id}")),
        None => builder.id(format!("i-{at:05}")),
    }
}

fn tagged_instance(at: usize, id: Option<&str>) -> ServiceInstance {
    let of = |all: &[&'static str]| all[at % all.len()];
    builder(at, id)
        .metadata(
            [
                ("zone", of(&["eu-1a", "eu-1b", "eu-1c"])),
                ("weight", of(&["1", "2", "3", "4", "5"])),
                ("hint", of(&["blue", "green"])),
                ("version", if at % 4 < 2 { "v1" } else { "v2" }),
            ]
            .into_iter()
            .collect::<evenkeel::Metadata>(),
        )
        .build()
        .expect("a valid instance")
}

/// Makes the heap look as it does in a process that has run for a while: the next allocations of the size of an instance's
/// state land in holes all over it, in no order. Keep what it returns until they are made.
pub fn scatter(n: usize) -> Vec<Box<[u8]>> {
    const SPARE: usize = 16;
    let size = size_of::<evenkeel::InstanceState>() + SPARE;
    let block = || vec![0_u8; size].into_boxed_slice();
    let mut holes: Vec<Option<Box<[u8]>>> = Vec::new();
    let mut pins = Vec::new();
    for _ in 0..2 * n {
        holes.push(Some(block()));
        pins.push(vec![0_u8; SPARE].into_boxed_slice());
    }
    // A fixed order without order: a full cycle of a linear congruential generator over a power of two.
    let modulus = holes.len().next_power_of_two();
    let mut at = 1;
    for _ in 0..modulus {
        at = (at * 1_664_525 + 1_013_904_223) % modulus;
        if let Some(hole) = holes.get_mut(at) {
            *hole = None;
        }
    }
    pins
}
