//! What a new list says that the one before did not.

use crate::numbers::ByNumber;

use crate::ServiceInstance;
use crate::observe::ChangeKind;
use crate::state::ServiceState;

/// How many instances of one kind of difference are noted one by one: a rollout of a few is seen whole, and one of a
/// thousand does not push everything else out of the ring.
const ONE_BY_ONE: usize = 16;

/// Notes who came, who went, and of whom something else is said; a list in another order is no change.
pub(in crate::balancer) fn note_list(
    service: &ServiceState,
    before: Option<&[ServiceInstance]>,
    now: &[ServiceInstance],
) {
    let Some(before) = before else {
        service.note(ChangeKind::Listed, None, format!("{} instances", now.len()));
        return;
    };
    let told = |pairs: &mut dyn Iterator<Item = (&ServiceInstance, &ServiceInstance)>| {
        let changed = pairs.filter(|(was, is)| was != is).map(|(was, is)| (is, what_changed(was, is)));
        tell(service, ChangeKind::Changed, changed);
    };
    let same = |(was, is): (&ServiceInstance, &ServiceInstance)| was.identity_hash() == is.identity_hash();
    if before.len() == now.len() && before.iter().zip(now).all(same) {
        // As nearly always, the same ones in the same order.
        told(&mut before.iter().zip(now));
        return;
    }
    let by_identity = |list: &'_ [ServiceInstance]| -> ByNumber<usize> {
        list.iter().enumerate().map(|(at, instance)| (instance.identity_hash(), at)).collect()
    };
    let (old, new) = (by_identity(before), by_identity(now));
    let added = now.iter().filter(|instance| !old.contains_key(&instance.identity_hash()));
    let removed = before.iter().filter(|instance| !new.contains_key(&instance.identity_hash()));
    let both = now.iter().filter_map(|is| Some((&before[*old.get(&is.identity_hash())?], is)));
    tell(service, ChangeKind::Added, added.map(|instance| (instance, String::new())));
    tell(service, ChangeKind::Removed, removed.map(|instance| (instance, String::new())));
    told(&mut { both });
}

fn tell<'a>(
    service: &ServiceState,
    kind: ChangeKind,
    mut all: impl Iterator<Item = (&'a ServiceInstance, String)>,
) {
    for (instance, detail) in all.by_ref().take(ONE_BY_ONE) {
        service.note(kind, Some(instance), detail);
    }
    let more = all.count();
    if more > 0 {
        service.note(kind, None, format!("and {more} more"));
    }
}

/// In a few words, without the values of metadata, which may be secrets.
fn what_changed(was: &ServiceInstance, is: &ServiceInstance) -> String {
    let mut said = Vec::new();
    if was.status() != is.status() {
        said.push(format!("status {} -> {}", was.status(), is.status()));
    }
    if was.zone() != is.zone() {
        said.push(format!("zone {} -> {}", was.zone().unwrap_or("none"), is.zone().unwrap_or("none")));
    }
    let weight = |one: &ServiceInstance| {
        one.weight().map_or_else(
            || one.metadata().get("weight").unwrap_or("unset").to_owned(),
            |weight| weight.to_string(),
        )
    };
    if weight(was) != weight(is) {
        said.push(format!("weight {} -> {}", weight(was), weight(is)));
    }
    let keys: Vec<&str> = was
        .metadata()
        .iter()
        .chain(is.metadata().iter())
        .map(|(key, _)| key)
        .filter(|key| *key != "weight" && was.metadata().get(key) != is.metadata().get(key))
        .collect();
    let mut keys = keys;
    keys.sort_unstable();
    keys.dedup();
    if !keys.is_empty() {
        said.push(format!("metadata {}", keys.join(", ")));
    }
    if said.is_empty() { "other properties".to_owned() } else { said.join(", ") }
}
