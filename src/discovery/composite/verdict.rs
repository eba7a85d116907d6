//! What several answers mean together.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ServiceInstance;
use crate::discovery::{SupplyError, SupplyErrorKind};

/// How the lists of several sources become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The first list that is not empty.
    First,
    /// All instances of all lists; of two with one identity the one of the earlier source.
    Merge,
}

/// How one source stands.
#[derive(Clone, Debug)]
pub(super) enum Stand {
    /// Its first answer may still come.
    Waiting,
    /// Its list, fresh or the last good one.
    Answer(Arc<[ServiceInstance]>),
    /// It never answered, or not for too long: it is passed over.
    Nothing(SupplyError),
}

impl Stand {
    pub(super) fn has_instances(&self) -> bool {
        matches!(self, Self::Answer(list) if !list.is_empty())
    }
}

/// The common answer; `None` while it depends on a source that is waited for.
pub(super) fn verdict(
    origin: &str,
    mode: Mode,
    stands: impl IntoIterator<Item = Stand>,
) -> Option<Result<Vec<ServiceInstance>, SupplyError>> {
    let (mut lists, mut errors) = (Vec::new(), Vec::new());
    for stand in stands {
        match stand {
            Stand::Waiting => return None,
            Stand::Answer(list) if mode == Mode::First && !list.is_empty() => return Some(Ok(list.to_vec())),
            Stand::Answer(list) => lists.push(list),
            Stand::Nothing(error) => errors.push(error),
        }
    }
    if lists.is_empty() && !errors.is_empty() {
        return Some(Err(all_failed(origin, &errors)));
    }
    Some(Ok(union(&lists)))
}

fn union(lists: &[Arc<[ServiceInstance]>]) -> Vec<ServiceInstance> {
    let mut all: Vec<ServiceInstance> = Vec::new();
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for instance in lists.iter().flat_map(|list| list.iter()) {
        let same_hash = places.entry(instance.identity_hash()).or_default();
        if same_hash.iter().any(|at| all[*at].same_identity(instance)) {
            continue;
        }
        same_hash.push(all.len());
        all.push(instance.clone());
    }
    all
}

/// One error that names each source; its kind is that of the first.
pub(super) fn all_failed(origin: &str, errors: &[SupplyError]) -> SupplyError {
    let kind = errors.first().map_or(SupplyErrorKind::Other, SupplyError::kind);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    SupplyError::new(kind, origin, texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ports: &[u16]) -> Stand {
        Stand::Answer(ports.iter().map(|port| ServiceInstance::new("h", *port).unwrap()).collect())
    }

    fn nothing(name: &str) -> Stand {
        Stand::Nothing(SupplyError::new(SupplyErrorKind::Io, name, "down"))
    }

    #[test]
    fn the_truth_table() {
        use Stand::Waiting;
        let ports = |mode, stands: [Stand; 2]| {
            verdict("both", mode, stands).map(|answer| {
                answer.map(|list| list.iter().filter_map(ServiceInstance::port).collect::<Vec<_>>()).ok()
            })
        };
        let rows: [([Stand; 2], _, _); 12] = [
            ([list(&[1]), list(&[2])], Some(Some(vec![1])), Some(Some(vec![1, 2]))),
            ([list(&[]), list(&[2])], Some(Some(vec![2])), Some(Some(vec![2]))),
            ([list(&[1]), list(&[])], Some(Some(vec![1])), Some(Some(vec![1]))),
            ([list(&[]), list(&[])], Some(Some(vec![])), Some(Some(vec![]))),
            ([nothing("a"), list(&[2])], Some(Some(vec![2])), Some(Some(vec![2]))),
            ([list(&[1]), nothing("b")], Some(Some(vec![1])), Some(Some(vec![1]))),
            ([nothing("a"), list(&[])], Some(Some(vec![])), Some(Some(vec![]))),
            ([nothing("a"), nothing("b")], Some(None), Some(None)),
            ([Waiting, list(&[2])], None, None),
            ([list(&[1]), Waiting], Some(Some(vec![1])), None),
            ([list(&[]), Waiting], None, None),
            ([nothing("a"), Waiting], None, None),
        ];
        for (stands, first, merged) in rows {
            assert_eq!(ports(Mode::First, stands.clone()), first, "{stands:?}");
            assert_eq!(ports(Mode::Merge, stands.clone()), merged, "{stands:?}");
        }
        assert!(verdict("none", Mode::First, []).unwrap().unwrap().is_empty());
    }

    #[test]
    fn an_instance_of_two_sources_counts_once_and_the_first_wins() {
        let of = |zone: &str| ServiceInstance::builder("h").port(1).zone(zone).build().unwrap();
        let stands = [Stand::Answer([of("a"), of("b")].into()), Stand::Answer([of("c")].into()), list(&[2])];
        let merged = verdict("all", Mode::Merge, stands).unwrap().unwrap();
        assert_eq!(merged.iter().map(ServiceInstance::zone).collect::<Vec<_>>(), [Some("a"), None]);
    }

    #[test]
    fn an_error_names_each_source() {
        let error = verdict("both", Mode::First, [nothing("a"), nothing("b")]).unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "both could not be asked: a could not be asked: down; b could not be asked: down"
        );
    }
}
