//! A list on its way into a snapshot.

use std::sync::Arc;

use crate::state::InstanceState;
use crate::supplier::Standing;
use crate::{ServiceId, ServiceInstance, Weight};

/// A list as the source gave it, and with the service filled in, entry by entry.
#[derive(Clone)]
pub(super) struct List {
    pub(super) raw: Vec<ServiceInstance>,
    pub(super) named: Vec<ServiceInstance>,
}

/// An instance on its way into a snapshot.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) uid: u64,
    pub(super) state: Arc<InstanceState>,
    pub(super) instance: ServiceInstance,
    pub(super) weight: Weight,
    pub(super) standing: Standing,
    /// How it would stand if its calls told nothing.
    pub(super) listed: Standing,
    /// It is being connected, and calls go to others until then.
    pub(super) connecting: bool,
}

/// How many entries that left are passed over to find the next one that stayed, and how many may be missed in a row before
/// the list counts as another one altogether.
const AHEAD: usize = 4;
const MISSES: usize = 64;

impl List {
    /// An entry that says what it said in the list before stays that one, so that all that is compared behind ends at the
    /// pointer. `None` when the list is the one before.
    pub(super) fn after(
        before: Option<&Self>,
        mut raw: Vec<ServiceInstance>,
        service: &ServiceId,
    ) -> Option<Self> {
        let (old, old_named) = before.map_or((&[][..], &[][..]), |list| (&list.raw, &list.named));
        let (mut at, mut missed, mut kept) = (0, 0, 0);
        let mut named = Vec::with_capacity(raw.len());
        for instance in &mut raw {
            let ahead = old.get(at..).filter(|_| missed < MISSES).unwrap_or_default();
            if let Some(step) = ahead.iter().take(AHEAD).position(|old| old == instance) {
                at += step;
                *instance = old[at].clone();
                named.push(old_named[at].clone());
                (at, missed, kept) = (at + 1, 0, kept + 1);
            } else {
                named.push(instance.within(service));
                missed += 1;
            }
        }
        let same = before.is_some() && kept == raw.len() && kept == old.len();
        (!same).then_some(Self { raw, named })
    }
}
