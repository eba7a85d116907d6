//! Who stands for which keys: the name of an instance in rings and tables.

use crate::ServiceInstance;
use crate::policy::Candidates;

use super::xx::Xx64;

/// The metadata entry that stands in place of an instance's address (gRFC A76), in two spellings: a replica that takes over its
/// name takes over its keys.
pub(super) const HASH_KEYS: [&str; 2] = ["hash-key", "hash_key"];

/// One instance of a set, in the order of the set.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) uid: u64,
    /// No two members of a set have the same.
    pub(super) name: Box<str>,
    /// Of the name.
    pub(super) hash: u64,
    /// In thousandths; all alike where weights are off. A list holds nobody of weight 0, and if it did, it would have no keys;
    /// if all were, they would be alike.
    pub(super) weight: u64,
}

/// What an instance is called: what its registry says, else its address. Never its id, which many registries make anew at each
/// start of a process, so that a mere restart would move its keys.
fn name(instance: &ServiceInstance) -> String {
    let told = HASH_KEYS.iter().find_map(|key| instance.metadata().get(key));
    told.filter(|name| !name.trim().is_empty()).map_or_else(|| instance.authority(), str::to_owned)
}

/// The members of `set`, in its order.
pub(super) fn members(set: &Candidates<'_>) -> Vec<Member> {
    let weights = set.weights().filter(|weights| weights.iter().any(|weight| !weight.is_zero()));
    let mut members: Vec<Member> = (0..set.len())
        .map(|at| {
            let name: Box<str> = name(&set.instance(at)).into();
            let weight = weights.map_or(1_000, |weights| weights[at].thousandths());
            Member { uid: set.state(at).uid(), hash: Xx64::of(name.as_bytes()), name, weight }
        })
        .collect();
    tell_apart(&mut members, set);
    members
}

/// Numbers members of one name, which would else all stand at the same points, so that only one of them had keys.
fn tell_apart(members: &mut [Member], set: &Candidates<'_>) {
    let mut order = by_name(members);
    if order.windows(2).all(|two| members[two[0]].name != members[two[1]].name) {
        return;
    }
    // By what every client sees alike; the order of first sight differs.
    let seen = |at: usize| {
        let instance = set.instance(at);
        (
            instance.authority(),
            instance.id().to_owned(),
            instance.scheme().map(str::to_owned),
            instance.secure(),
        )
    };
    order.sort_by(|a, b| members[*a].name.cmp(&members[*b].name).then_with(|| seen(*a).cmp(&seen(*b))));
    let mut number = 0;
    for at in 1..order.len() {
        let (before, this) = (order[at - 1 - number], order[at]);
        number = if members[before].name == members[this].name { number + 1 } else { 0 };
        if number > 0 {
            let name = format!("{}#{number}", members[this].name);
            (members[this].hash, members[this].name) = (Xx64::of(name.as_bytes()), name.into());
        }
    }
}

/// The places of the members in the order of their names, which does not depend on the order of the list.
pub(super) fn by_name(members: &[Member]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_unstable_by(|a, b| members[*a].name.cmp(&members[*b].name));
    order
}

/// The weight in the middle, of two the lighter one. Points are given in proportion to it, since it seldom moves when one
/// instance comes or goes, as a sum or the lightest does: what moves it moves every key a little.
pub(super) fn median(members: &[Member]) -> u64 {
    let mut weights: Vec<u64> = members.iter().map(|member| member.weight).filter(|w| *w > 0).collect();
    let middle = weights.len().saturating_sub(1) / 2;
    weights.sort_unstable();
    weights.get(middle).copied().unwrap_or(1).max(1)
}
