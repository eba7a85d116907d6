//! How the traffic to a list is divided among its members, view by view.

use std::borrow::Cow;
use std::sync::Arc;

use super::list::Member;
use crate::state::{InstanceState, ServiceState};
use crate::supplier::{Allotted, Candidate, Chain, DistributionReport, Standing};
use crate::{Status, Weight};

/// What a snapshot was divided by, and how; nothing where weights are all there is to it.
#[derive(Debug, Default)]
pub(super) struct Spread(Option<Box<On>>);

#[derive(Debug)]
struct On {
    generation: u64,
    /// Everybody, in the order of first sight: those too that get nothing.
    members: Box<[Known]>,
    /// Of the whole list; `None` when that is empty.
    report: Option<DistributionReport>,
}

/// A member, with how it stands, and how it would if its calls told nothing.
#[derive(Debug)]
struct Known {
    state: Arc<InstanceState>,
    standing: Standing,
    listed: Standing,
    connecting: bool,
}

impl From<&Member> for Known {
    fn from(member: &Member) -> Self {
        let state = Arc::clone(&member.state);
        Self { state, standing: member.standing, listed: member.listed, connecting: member.connecting }
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
            && self.standing == other.standing
            && self.listed == other.listed
            && self.connecting == other.connecting
    }
}

/// How an instance stands, by what the list says of it and by what is known of it here. The one place that decides who
/// counts as usable where shares of usable ones are taken.
pub(super) fn standing(state: &InstanceState, listed: Standing) -> Standing {
    if listed.is_available() && !is_available(state) { Standing::Failing } else { listed }
}

/// Whether nothing that is known of an instance itself forbids to use it: it is not down, nor out of use for what its calls
/// showed. One that is due for its probing call is available, or nobody would ever probe it.
fn is_available(state: &InstanceState) -> bool {
    state.instance().status() != Status::Down && !state.is_waiting()
}

/// What is left of the members of a group.
pub(super) struct Divided {
    /// Everybody who may be called if need be, with their own weights.
    pub(super) whole: Vec<Member>,
    /// Who gets traffic, with the weights that say how much.
    pub(super) used: Vec<Member>,
}

impl Spread {
    pub(super) fn of(chain: &Chain, members: &[Member]) -> Self {
        let on = chain.distribution.as_ref().map(|distribution| {
            let members = members.iter().map(Known::from).collect();
            Box::new(On { generation: distribution.generation(), members, report: None })
        });
        Self(on)
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the same would come of both.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.generation == b.generation && a.members == b.members,
            (None, None) => true,
            _ => false,
        }
    }

    /// Everybody who was divided, and whether the list has it for usable; `None` where nothing divides.
    pub(super) fn members(&self) -> Option<impl Iterator<Item = (&Arc<InstanceState>, bool)>> {
        Some(self.0.as_ref()?.members.iter().map(|known| (&known.state, known.listed.is_available())))
    }

    pub(super) fn report(&self) -> Option<&DistributionReport> {
        self.0.as_ref()?.report.as_ref()
    }

    /// The members of a group, divided; `None` where nothing divides them. `narrow` is what the stages inside groups leave
    /// of some of them.
    pub(super) fn divide(
        &mut self,
        chain: &Chain,
        key: &str,
        members: &[Member],
        mut narrow: impl FnMut(&[Member]) -> Option<Vec<Member>>,
    ) -> Option<Divided> {
        let distribution = chain.distribution.as_ref()?;
        let everybody = members;
        let members = &*counted(everybody);
        let own = |member: &Member| {
            if chain.weights.is_on() { member.weight.thousandths() } else { Weight::ONE.thousandths() }
        };
        let candidates: Vec<Candidate<'_>> = members
            .iter()
            .map(|member| Candidate {
                instance: &member.instance,
                weight: own(member),
                standing: member.standing,
            })
            .collect();
        let Allotted { used, whole, report } = distribution.allot(key, &candidates, &mut |places| {
            if chain.inner.is_empty() {
                return places.iter().map(|at| (*at, own(&members[*at]))).collect();
            }
            let some: Vec<Member> = places.iter().map(|at| members[*at].clone()).collect();
            match narrow(&some) {
                None => places.iter().map(|at| (*at, own(&members[*at]))).collect(),
                Some(left) => {
                    let place = |one: &Member| {
                        members
                            .binary_search_by_key(&one.uid, |member| member.uid)
                            .ok()
                            .map(|at| (at, own(one)))
                    };
                    left.iter().filter_map(place).collect()
                }
            }
        });
        if let Some(on) = self.0.as_mut().filter(|_| key.is_empty()) {
            on.report = Some(report);
        }
        let used = used
            .into_iter()
            .map(|(at, weight)| Member { weight: Weight::of_thousandths(weight), ..members[at].clone() });
        let mut whole: Vec<Member> = whole.iter().map(|at| members[*at].clone()).collect();
        if members.len() < everybody.len() {
            whole.extend(everybody.iter().filter(|member| member.connecting).cloned());
            whole.sort_unstable_by_key(|member| member.uid);
        }
        Some(Divided { used: used.collect(), whole })
    }

    /// The list is divided: tells what changed by it, and lets go of groups that are gone.
    pub(super) fn ended(&self, chain: &Chain, service: &ServiceState, is_there: impl Fn(&str) -> bool) {
        if let Some(distribution) = &chain.distribution {
            distribution.retain(is_there);
            if let Some(report) = self.report() {
                for (kind, detail) in distribution.tell(service.id(), report) {
                    service.note(kind, None, detail);
                }
            }
        }
    }
}

/// Those of `members` among whom traffic is divided: who is being connected does not count yet, neither as usable nor as
/// missing, unless nobody else is usable. It may be called if need be.
fn counted(members: &[Member]) -> Cow<'_, [Member]> {
    let counts = |member: &&Member| !member.connecting;
    let waited_for = members.iter().any(|member| member.connecting);
    if waited_for && members.iter().filter(counts).any(|member| member.standing.is_available()) {
        members.iter().filter(counts).cloned().collect()
    } else {
        Cow::Borrowed(members)
    }
}

/// Whether requests could go to any of `members`.
pub(super) fn is_open(members: &[Member]) -> bool {
    members.iter().any(|member| member.standing.is_available())
}

/// Whether a group of a list is there, where somebody of the list is usable, or nobody is.
pub(super) fn exists(group: &[Member], open: bool) -> bool {
    if open { is_open(group) } else { group.iter().any(|member| member.standing.is_callable()) }
}

/// The same instances, each with the part of the traffic that it would have anyway.
pub(super) fn is_plain(used: &[Member], whole: &[Member], weighted: bool) -> bool {
    let own = |member: &Member| u128::from(if weighted { member.weight.thousandths() } else { 1 });
    let given = |member: &Member| u128::from(member.weight.thousandths());
    let same =
        used.len() == whole.len() && used.iter().zip(whole).all(|(a, b)| Arc::ptr_eq(&a.state, &b.state));
    let Some((first, other)) = used.first().zip(whole.first()).filter(|_| same) else { return false };
    used.iter().zip(whole).all(|(a, b)| given(a) * own(other) == own(b) * given(first))
}
