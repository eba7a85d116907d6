//! The tree of views: the whole list, and each group that a request can name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::board::Board;
use super::list::Member;
use super::snapshot::{Branch, Node, Snapshot};
use super::spread::{Divided, Spread, exists, is_open, is_plain};
use super::view::View;
use crate::bytes::same;
use crate::policy::{Cursor, Policy, Publishing};
use crate::supplier::{Chain, Groups, Reads, RequestStage, Selection};
use crate::{Request, ServiceInstance, Weight};

/// One build of the tree of views.
pub(super) struct Build<'a> {
    pub(super) board: &'a Board,
    pub(super) chain: &'a Chain,
    pub(super) policy: &'a dyn Policy,
    pub(super) publishing: Publishing,
    pub(super) old: &'a HashMap<String, Arc<Cursor>>,
    pub(super) new: HashMap<String, Arc<Cursor>>,
    pub(super) before: Option<&'a Snapshot>,
    pub(super) spread: Spread,
}

/// Marks the rotation of the same group without the stages inside groups.
const WIDE: char = '\u{1}';

impl Build<'_> {
    pub(super) fn tree(&mut self, members: &[Member]) -> (Option<Node>, Option<Arc<View>>) {
        if members.is_empty() {
            return (None, None);
        }
        let before = self.before;
        let old_base = before.and_then(|before| before.base.as_ref());
        // Who gets traffic of the whole list is decided first: it is the group without a name.
        let divided = self.divided(members, "", None);
        let whole = divided.as_ref().map_or(members, |divided| &divided.whole);
        let base = self.view(whole, &String::from(WIDE), old_base, None);
        let old_root = before.and_then(|before| before.root.as_ref());
        let root = self.node(
            (members, divided),
            &mut String::new(),
            None,
            &base,
            old_root,
            &Arc::clone(&self.chain.requests),
        );
        (Some(root), Some(base))
    }

    /// The node of a group (`name`; `None` = the whole list) and of everything that the stages left can name inside it.
    fn node(
        &mut self,
        (members, divided): (&[Member], Option<Divided>),
        key: &mut String,
        name: Option<&str>,
        wider: &Arc<View>,
        old: Option<&Node>,
        stages: &[Arc<dyn RequestStage>],
    ) -> Node {
        let old_view = old.map(|old| &old.view);
        let spread = divided.is_some();
        let (whole, narrowed) = match divided {
            None => (Cow::Borrowed(members), self.narrowed(members, name)),
            Some(Divided { whole, used }) => {
                let plain = is_plain(&used, &whole, self.chain.weights.is_on());
                (Cow::Owned(whole), (!plain && !used.is_empty()).then_some(used))
            }
        };
        let is_base = whole.len() == wider.states().len();
        let view = match narrowed {
            // Nothing inside the group: the group is the view.
            None if is_base && key.is_empty() => self.view(&whole, key, old_view, None),
            None => self.view(&whole, key, old_view, Some(Arc::clone(wider))),
            Some(list) => {
                let wider = if is_base {
                    Arc::clone(wider)
                } else {
                    let old_whole = old_view.and_then(|view| view.wider.as_ref());
                    self.view(&whole, &format!("{key}{WIDE}"), old_whole, Some(Arc::clone(wider)))
                };
                self.weighted(&list, key, old_view, Some(wider), spread || self.chain.weights.is_on())
            }
        };
        let next = self.branch(members, key, &view, wider, old, stages);
        Node { view, next }
    }

    fn branch(
        &mut self,
        members: &[Member],
        key: &mut String,
        own: &Arc<View>,
        wider: &Arc<View>,
        old: Option<&Node>,
        stages: &[Arc<dyn RequestStage>],
    ) -> Option<Box<Branch>> {
        let (stage, rest) = stages.split_first()?;
        let mut named = Named::default();
        let list: Vec<&ServiceInstance> = members.iter().map(|member| &member.instance).collect();
        stage.groups_of(&list, &mut |member, name| {
            let Some(member) = members.get(member) else { return };
            let group = named.group(name);
            // A stage may name a group twice for one instance.
            if group.last().is_none_or(|last| last.uid != member.uid) {
                group.push(member.clone());
            }
        });
        let mut named = named.groups;
        for (_, group) in &mut named {
            // A stage may also name instances in an order of its own.
            if !group.is_sorted_by_key(|member| member.uid) {
                group.sort_by_key(|member| member.uid);
                group.dedup_by_key(|member| member.uid);
            }
        }
        if self.spread.is_on() {
            // Nobody is usable there: as if nobody were listed.
            let open = is_open(members);
            named.retain(|(_, group)| exists(group, open));
        }
        named.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let old_branch = old.and_then(|old| old.next.as_deref());
        let strict = stage.is_strict();
        let length = key.len();
        let mut nodes = Vec::with_capacity(named.len());
        for (name, group) in &named {
            key.push_str(stage.name());
            key.push('=');
            key.push_str(name);
            key.push('\u{0}');
            let old_node =
                old_branch.and_then(|branch| branch.nodes.get(branch.groups.find(name)?.0 as usize));
            // A strict group is never left: its own instances are the widest view.
            let divided = self.divided(group, key, Some(name));
            let node = if strict {
                let old_widest = old_node.map(|node| widest(&node.view));
                let whole = divided.as_ref().map_or(&group[..], |divided| &divided.whole);
                let whole = self.view(whole, &format!("{key}{WIDE}"), old_widest, None);
                self.node((group, divided), key, Some(name), &whole, old_node, rest)
            } else {
                self.node((group, divided), key, Some(name), wider, old_node, rest)
            };
            nodes.push(node);
            key.truncate(length);
        }
        let all = if rest.is_empty() {
            None
        } else {
            let old_all = old_branch.and_then(|branch| branch.all.as_ref());
            let next = self.branch(members, key, own, wider, old_all, rest);
            Some(Node { view: Arc::clone(own), next })
        };
        let members: Vec<&Member> =
            members.iter().filter(|member| !self.spread.is_on() || member.standing.is_available()).collect();
        let instances = instances(&**stage, &members);
        let states = if instances.is_empty() {
            Box::default()
        } else {
            members.iter().map(|member| Arc::clone(&member.state)).collect()
        };
        let groups = Groups::new(named.into_iter().map(|(name, _)| name).collect(), instances);
        let groups = groups.indexed(&**stage);
        let reads = stage.reads().among(&groups);
        // Who looks at anything is always asked.
        let known = reads != Reads::anything();
        let idle = if known { stage.select(&Request::EMPTY, &groups) } else { Selection::All };
        Some(Box::new(Branch { reads, idle, groups, nodes: nodes.into(), all, states }))
    }

    /// The members of a group as the traffic is divided among them, where it is.
    fn divided(&mut self, members: &[Member], key: &str, name: Option<&str>) -> Option<Divided> {
        // Taken out, so that the stages can be asked meanwhile.
        let mut spread = std::mem::take(&mut self.spread);
        let divided = spread.divide(self.chain, key, members, |some| self.narrowed(some, name));
        self.spread = spread;
        divided
    }

    /// What the stages inside groups leave of a group; `None` when they leave all of it as it is.
    fn narrowed(&self, members: &[Member], name: Option<&str>) -> Option<Vec<Member>> {
        if self.chain.inner.is_empty() {
            return None;
        }
        let mut list: Vec<ServiceInstance> = members.iter().map(|member| member.instance.clone()).collect();
        self.chain.within(&mut list, self.board.service.id(), name);
        // Nearly always a part of the members in their order; a stage may also reorder or repeat.
        let mut left = Vec::with_capacity(list.len());
        let mut rest = members.iter();
        for instance in &list {
            let member = rest
                .by_ref()
                .find(|member| member.instance.same_identity(instance))
                .or_else(|| members.iter().find(|member| member.instance.same_identity(instance)));
            let Some(member) = member else { continue };
            let weight = if member.instance.is_same_entry(instance) {
                member.weight
            } else {
                self.chain.weights.weigh(instance).0
            };
            if !weight.is_zero() {
                left.push(Member { weight, ..member.clone() });
            }
        }
        if !left.is_sorted_by_key(|member| member.uid) {
            left.sort_by_key(|member| member.uid);
        }
        left.dedup_by_key(|member| member.uid);
        // A stage that leaves nothing of a group would make it unreachable; it is passed over there.
        let same = left.len() == members.len() && left.iter().zip(members).all(|(a, b)| a.weight == b.weight);
        (!left.is_empty() && !same).then_some(left)
    }

    fn view(
        &mut self,
        members: &[Member],
        key: &String,
        old: Option<&Arc<View>>,
        wider: Option<Arc<View>>,
    ) -> Arc<View> {
        self.weighted(members, key, old, wider, self.chain.weights.is_on())
    }

    fn weighted(
        &mut self,
        members: &[Member],
        key: &String,
        old: Option<&Arc<View>>,
        wider: Option<Arc<View>>,
        weighted: bool,
    ) -> Arc<View> {
        let states: Box<[_]> = members.iter().map(|member| Arc::clone(&member.state)).collect();
        let weights: Option<Box<[Weight]>> = weighted
            .then(|| members.iter().map(|member| member.weight).collect::<Box<[Weight]>>())
            .filter(|weights| weights.iter().any(|weight| *weight != weights[0]));
        let cursor = self.old.get(key).map_or_else(Arc::default, Arc::clone);
        let old = old.filter(|_| self.old.contains_key(key));
        self.new.insert(key.clone(), Arc::clone(&cursor));
        Arc::new(View::new(
            states,
            weights,
            (self.policy, &self.publishing),
            cursor,
            old.map(|old| &**old),
            &self.board.random,
            wider,
        ))
    }
}

/// The groups of one stage while their members are told.
#[derive(Default)]
struct Named {
    groups: Vec<(Arc<str>, Vec<Member>)>,
    /// Where they are, once there are more than a [`FEW`].
    index: HashMap<Arc<str>, usize>,
}

/// Up to so many groups are looked through one by one.
const FEW: usize = 8;

impl Named {
    /// The members of the group of this name, which is made at first sight.
    fn group(&mut self, name: &str) -> &mut Vec<Member> {
        let known = if self.groups.len() <= FEW {
            self.groups.iter().position(|(own, _)| same(own.as_bytes(), name.as_bytes()))
        } else {
            self.index.get(name).copied()
        };
        let at = known.unwrap_or_else(|| {
            self.groups.push((name.into(), Vec::new()));
            let at = self.groups.len() - 1;
            if self.groups.len() > FEW {
                // The first time, all of them.
                let from = if self.index.is_empty() { 0 } else { at };
                let new = self.groups[from..].iter().map(|(name, _)| Arc::clone(name)).zip(from..);
                self.index.extend(new);
            }
            at
        });
        &mut self.groups[at].1
    }
}

/// The names by which a stage finds single instances, sorted; of one name, the lowest address.
fn instances(stage: &dyn RequestStage, members: &[&Member]) -> Box<[(Box<str>, u32)]> {
    let mut found: Vec<(Box<str>, &Member, u32)> = members
        .iter()
        .zip(0..)
        .filter_map(|(member, at)| Some((stage.instance_name(&member.instance)?.into(), *member, at)))
        .collect();
    let address = |member: &Member| (member.instance.host().to_owned(), member.instance.port());
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| address(a.1).cmp(&address(b.1))));
    found.dedup_by(|later, first| later.0 == first.0);
    found.into_iter().map(|(name, _, at)| (name, at)).collect()
}

fn widest(view: &Arc<View>) -> &Arc<View> {
    let mut at = view;
    while let Some(wider) = &at.wider {
        at = wider;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_places_when_there_are_too_many_to_look_through() {
        let mut named = Named::default();
        for round in 0..3 {
            for n in 0..3 * FEW {
                let before = named.groups.len();
                named.group(&format!("g{n}"));
                assert_eq!(named.groups.len(), if round == 0 { before + 1 } else { 3 * FEW });
            }
        }
        let names: Vec<&str> = named.groups.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, (0..3 * FEW).map(|n| format!("g{n}")).collect::<Vec<_>>());
    }
}
