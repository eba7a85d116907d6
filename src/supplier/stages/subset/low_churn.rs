//! The schemes under which little changes when the list does. Their hashes must not change between versions: that would
//! change every subset in one moment.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::ServiceInstance;

/// Clients in a lot, a power of two. With fewer, an instance's clients vary more over the lots; with more, fewer orders
/// mix who shares instances with whom. At 300 clients with 10 of 100 instances, 32 keep the standard deviation at a third
/// of what chance alone would give.
const LOT: u32 = 32;

/// Keeps the `size` instances with the largest scores for `client`, in the order of the list.
pub(super) fn rendezvous(list: &mut Vec<ServiceInstance>, size: usize, client: &str) {
    let mut scored: Vec<(u64, usize)> =
        list.iter().enumerate().map(|(at, instance)| (score(client.as_bytes(), instance), at)).collect();
    if size < scored.len() {
        let above = |a: &(u64, usize), b: &(u64, usize)| {
            b.0.cmp(&a.0).then_with(|| identity(&list[a.1]).cmp(&identity(&list[b.1])))
        };
        scored.select_nth_unstable_by(size, above);
        scored.truncate(size);
    }
    keep(list, scored.into_iter().map(|(_, at)| at));
}

/// Keeps the `size` instances that follow the client's place in the order of its lot, in the order of the list.
pub(super) fn lots(list: &mut Vec<ServiceInstance>, size: usize, ordinal: u32) {
    let lot = (ordinal / LOT).to_le_bytes();
    let mut order: Vec<(u64, usize)> =
        list.iter().enumerate().map(|(at, instance)| (score(&lot, instance), at)).collect();
    order
        .sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| identity(&list[a.1]).cmp(&identity(&list[b.1]))));
    // The places of the clients in the order of their numbers: 0, 1/2, 1/4, 3/4, 1/8 ..., so that a lot that is not full
    // is spread too.
    let place = (ordinal % LOT).reverse_bits() >> (32 - LOT.trailing_zeros());
    let from = order.len() * place as usize / LOT as usize;
    let kept: Vec<usize> = order.iter().cycle().skip(from).take(size).map(|(_, at)| *at).collect();
    keep(list, kept);
}

/// SipHash-2-4 with a key of zeros over `by`, then id, host, port and scheme of the instance, each behind its length.
fn score(by: &[u8], instance: &ServiceInstance) -> u64 {
    let (id, host, port, scheme) = identity(instance);
    let mut hasher = SipHasher24::new();
    let mut add = |part: &[u8]| {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    };
    add(by);
    add(id.as_bytes());
    add(host.as_bytes());
    add(&port.map_or([0; 2], u16::to_le_bytes));
    add(scheme.as_bytes());
    hasher.finish()
}

/// What makes it one instance, as far as two entries of a list can differ in it.
fn identity(instance: &ServiceInstance) -> (&str, &str, Option<u16>, &str) {
    let scheme = instance.scheme().unwrap_or(match instance.secure() {
        Some(true) => "https",
        Some(false) => "http",
        None => "",
    });
    (instance.id(), instance.host(), instance.port(), scheme)
}

fn keep(list: &mut Vec<ServiceInstance>, places: impl IntoIterator<Item = usize>) {
    let mut kept = vec![false; list.len()];
    for at in places {
        kept[at] = true;
    }
    let mut kept = kept.into_iter();
    list.retain(|_| kept.next().unwrap_or(false));
}
