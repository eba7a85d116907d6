use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::super::identity::ByIdentity;
use super::super::{ListStage, Rank, StageCx};
use crate::ServiceInstance;

/// One entry per identity (id, host, port, scheme): the last one wins, at the place of the first. Always on.
///
/// The same id on two ports is two instances.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duplicates;

impl ListStage for Duplicates {
    fn name(&self) -> &'static str {
        "duplicates"
    }

    fn rank(&self) -> Rank {
        Rank::Duplicates
    }

    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        let mut first: HashMap<ByIdentity, usize> = HashMap::with_capacity(list.len());
        let mut kept = 0;
        for at in 0..list.len() {
            match first.entry(ByIdentity(list[at].clone())) {
                Entry::Vacant(entry) => {
                    entry.insert(kept);
                    list.swap(kept, at);
                    kept += 1;
                }
                Entry::Occupied(entry) => {
                    let place = *entry.get();
                    list.swap(place, at);
                }
            }
        }
        list.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;

    #[test]
    fn case_045_the_last_of_two_equal_identities_wins_in_the_place_of_the_first() {
        let of = |id: &str, port: u16, mark: &str| {
            ServiceInstance::builder("h").port(port).id(id).with_metadata("m", mark).build().unwrap()
        };
        let mut list =
            vec![of("a", 1, "old"), of("b", 1, ""), of("a", 2, "port"), of("a", 1, "new"), of("c", 1, "")];
        let service = ServiceId::new("s").unwrap();
        Duplicates.apply(&mut list, &StageCx::new(&service, None));
        let seen: Vec<_> =
            list.iter().map(|i| (i.id(), i.port().unwrap(), i.metadata().get("m").unwrap())).collect();
        assert_eq!(seen, [("a", 1, "new"), ("b", 1, ""), ("a", 2, "port"), ("c", 1, "")]);
    }
}
