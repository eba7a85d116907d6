//! What a balancer tells its meters.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher24;

use super::board::{Board, Control};
use crate::observe::{Meters, Reading};
use crate::supplier::Origin;
use crate::{ServiceInstance, Status};

/// Hands what is known now to the recorder.
pub(super) fn publish(board: &Board, control: &Control, meters: &Meters) {
    let snapshot = board.snapshot.load_full();
    let snapshot = snapshot.as_deref();
    let origin = snapshot.map(super::Snapshot::origin);
    let listed = control.list.as_ref().map_or(&[][..], |list| &list.named);
    let all: Vec<_> = control.registry.all().map(Arc::clone).collect();
    meters.publish(&Reading {
        age: snapshot.map(super::Snapshot::age),
        stale: matches!(origin, Some(Origin::Stale | Origin::Disk)),
        guarded: origin == Some(Origin::Guarded),
        fail_open: control.open,
        hash: hash(listed),
        known: listed.len(),
        down: listed.iter().filter(|instance| instance.status() == Status::Down).count(),
        usable: snapshot.and_then(|snapshot| snapshot.base.as_ref()).map_or(&[], |base| base.states()),
        all: &all,
    });
}

/// What happened while nobody measured is not counted.
pub(super) fn resume(control: &Control) {
    for state in control.registry.all() {
        if let Some(meter) = state.meter() {
            meter.resume(state.standing());
        }
    }
}

/// Alike wherever the same instances are listed, in any order and any process: the sum of the hashes of what identifies
/// each.
fn hash(list: &[ServiceInstance]) -> u64 {
    let one = |instance: &ServiceInstance| {
        let mut hasher = SipHasher24::new();
        for part in [instance.id(), instance.host(), instance.scheme().unwrap_or_default()] {
            hasher.write(part.as_bytes());
            // No text has this byte, so that two parts are not one.
            hasher.write_u8(0xff);
        }
        hasher.write_u32(instance.port().map_or(u32::MAX, u32::from));
        hasher.finish()
    };
    list.iter().map(one).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_instances_in_any_order_and_process() {
        let at = |n: u16| ServiceInstance::new("10.0.0.1", n).unwrap();
        let list: Vec<_> = (1..50).map(at).collect();
        let mut other = list.clone();
        other.reverse();
        assert_eq!(hash(&list), hash(&other));
        other.pop();
        assert_ne!(hash(&list), hash(&other));
        other.push(at(1).to_builder().id("z").build().unwrap());
        assert_ne!(hash(&list), hash(&other));
        // What changes in place is not counted.
        let heavy = at(1).to_builder().with_metadata("weight", "7").build().unwrap();
        assert_eq!(hash(&[at(1)]), hash(&[heavy]));
        assert_eq!(hash(&[]), 0);
        // A number that another process, of another build, has too.
        let one = ServiceInstance::builder("10.0.0.1").port(8080).id("a").build().unwrap();
        assert_eq!(hash(&[one]), 6_334_909_707_424_701_282);
    }
}
