//! Why a request would go where it goes, or nowhere.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::super::LoadBalancer;
use super::super::snapshot::{Branch, Refused, Snapshot};
use super::super::view::View;
use super::dry::Rehearsal;
use super::facts::{Facts, left_out, stage};
use super::lines::{fill, lines, others};
use crate::observe::{
    Answer, DryRun, ExplainOptions, Explanation, GroupSize, Narrowing, RequestSummary, Share, millis, safe,
};
use crate::policy::Scores;
use crate::state::InstanceState;
use crate::supplier::{Reason, RequestStage, Selection, Step};
use crate::{ChooseErrorKind, Request, ServiceInstance, wall};

/// How many groups of a stage, and how many shares of a dry run, a report shows.
const SHOWN: usize = 20;

/// Where a request is picked from, and how it got there.
pub(super) struct Way<'a> {
    pub(super) view: &'a View,
    wanted: Option<&'a Arc<InstanceState>>,
    /// The last group, and the stage that named it.
    pub(super) group: Option<(&'a str, &'a str)>,
    refused: Option<Refused<'a>>,
}

impl LoadBalancer {
    /// Why `request` would go where it goes now, or why nowhere: what each stage says of each instance, the policy's scores,
    /// and a dry run of 10 picks.
    ///
    /// It changes nothing: no lease, no turn of a wheel, no claim on a probing call, no random number of a seed. A policy of
    /// one's own is asked for a dry run only if its picker says that it may be
    /// ([`Picker::rehearses`](crate::policy::Picker::rehearses)).
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        self.explain_with(request, ExplainOptions::default())
    }

    /// The same with another number of picks, or another part of the instances.
    pub fn explain_with(&self, request: &Request<'_>, options: ExplainOptions) -> Explanation {
        let facts = Facts::of(self);
        let snapshot = facts.snapshot.clone();
        let mut explanation = Explanation {
            service: facts.service.to_string(),
            at: wall::format(facts.wall),
            request: RequestSummary {
                method: request.method().map(safe),
                path: request.path().map(|path| safe(&path)),
                hint: request.hint().map(safe),
            },
            answer: Answer { instance: None, error: None, look_up: self.look_up_of_a_pick() },
            version: snapshot.as_ref().map(|snapshot| snapshot.version()),
            age_ms: snapshot.as_ref().map(|snapshot| millis(snapshot.age())),
            stages: facts.steps.iter().map(stage).collect(),
            narrowed: Vec::new(),
            wanted: None,
            policy: facts.policy.name().into_owned(),
            scores: None,
            overrides: facts.overrides.iter().map(|one| one.report(&facts.listed)).collect(),
            dry_run: None,
            candidates: Vec::new(),
            before: 0,
            left_off: 0,
        };
        let mut panicked = false;
        let way = snapshot.as_deref().and_then(|snapshot| {
            let narrowed = &mut explanation.narrowed;
            let way = catch_unwind(AssertUnwindSafe(|| walk(snapshot, request, 0, Some(narrowed))));
            panicked = way.is_err();
            Some((snapshot, way.ok()??))
        });
        let Some((snapshot, way)) = way else {
            explanation.answer.error = Some(match &snapshot {
                _ if facts.closed => self.error(ChooseErrorKind::Closed).to_string(),
                _ if panicked => "a request stage panicked".to_owned(),
                Some(snapshot) => self.no_instances(snapshot, snapshot.reason).to_string(),
                None => match self.last_error() {
                    Some(error) => safe(&self.error(ChooseErrorKind::Supply(error)).to_string()),
                    None => self.error(ChooseErrorKind::NotReady).to_string(),
                },
            });
            let lines = others(&facts, &HashSet::new(), &left_out(&facts.steps), None);
            fill(&mut explanation, &facts, &lines, None, &HashMap::new(), options);
            return explanation;
        };
        if let Some(refused) = way.refused {
            let stage = refused.stage.name().to_owned();
            let error = self.refused(snapshot, refused, request).to_string();
            explanation.answer.error = Some(safe(&error));
            let out = Some((stage, "the request must not be sent anywhere".to_owned()));
            let lines = others(&facts, &HashSet::new(), &left_out(&facts.steps), out.as_ref());
            fill(&mut explanation, &facts, &lines, None, &HashMap::new(), options);
            return explanation;
        }
        explanation.wanted = way.wanted.map(|state| state.instance().to_string());
        let steps = inside(&facts, &way);
        explanation.stages.extend(steps.iter().map(stage));
        let mut shares = HashMap::new();
        let (scores, dry) = self.rehearse(snapshot, &way, request, options.picks(), &mut shares);
        match (&dry.first, facts.closed) {
            (_, true) => explanation.answer.error = Some(self.error(ChooseErrorKind::Closed).to_string()),
            (Some(first), _) => explanation.answer.instance = Some(first.to_string()),
            (None, _) => {
                let not_picked = || self.no_instances(snapshot, Reason::NotPicked).to_string();
                explanation.answer.error = Some(dry.run.why_not.clone().unwrap_or_else(not_picked));
            }
        }
        explanation.dry_run = (options.picks() > 0).then_some(dry.run);
        explanation.scores = scores.as_ref().map(|scores| scores.what().to_owned());
        let lines = lines(&facts, &way, request, &steps);
        fill(&mut explanation, &facts, &lines, scores.as_ref(), &shares, options);
        explanation
    }

    /// What a pick would do beside picking.
    fn look_up_of_a_pick(&self) -> Option<String> {
        let word = self.core.driver.word.load();
        if word.is_closed() {
            None
        } else if word.must_wait() {
            Some("no list may be served: a pick waits for the look-up".to_owned())
        } else if word.is_due() {
            Some("the list is due: a pick has a look-up started behind it".to_owned())
        } else {
            None
        }
    }

    fn rehearse(
        &self,
        snapshot: &Snapshot,
        way: &Way<'_>,
        request: &Request<'_>,
        picks: u32,
        shares: &mut HashMap<u64, u32>,
    ) -> (Option<Scores>, Rehearsed) {
        let mut rehearsal = Rehearsal::new(&self.core.driver.publish.random);
        let scores =
            catch_unwind(AssertUnwindSafe(|| rehearsal.scores(way.view, request))).unwrap_or_default();
        let run = DryRun { picks: 0, shares: Vec::new(), instances: 0, none: 0, widened: 0, why_not: None };
        let mut dry = Rehearsed { first: None, run };
        if !way.view.picker.rehearses() {
            let why = "the policy does not say that it may be asked without a pick that follows";
            dry.run.why_not = Some(why.to_owned());
            return (scores, dry);
        }
        let mut names: HashMap<u64, ServiceInstance> = HashMap::new();
        let mut all = || {
            // One more than none: the answer is the first of them.
            for turn in 0..picks.max(1) {
                let anew = (turn > 0).then(|| walk(snapshot, request, turn, None)).flatten();
                let (view, wanted) = match &anew {
                    Some(Way { refused: Some(_), .. }) => {
                        dry.run.none += 1;
                        continue;
                    }
                    Some(anew) => (anew.view, anew.wanted),
                    None => (way.view, way.wanted),
                };
                let Some(picked) = rehearsal.pick(view, wanted, request) else {
                    dry.run.none += 1;
                    continue;
                };
                let state = picked.state;
                dry.run.widened += u32::from(picked.widened);
                *shares.entry(state.uid()).or_default() += 1;
                names.entry(state.uid()).or_insert_with(|| state.instance());
                if turn == 0 {
                    dry.first = Some(state.instance());
                }
            }
        };
        if catch_unwind(AssertUnwindSafe(&mut all)).is_err() {
            dry.run.why_not = Some("the policy, or a request stage, panicked".to_owned());
            dry.first = None;
        }
        dry.run.picks = picks;
        dry.run.instances = names.len();
        let mut order: Vec<(&u64, &u32)> = shares.iter().collect();
        order.sort_unstable_by_key(|(uid, picks)| (std::cmp::Reverse(**picks), **uid));
        dry.run.shares = order
            .iter()
            .take(SHOWN)
            .map(|(uid, picks)| Share { instance: safe(&names[*uid].to_string()), picks: **picks })
            .collect();
        (scores, dry)
    }
}

struct Rehearsed {
    first: Option<ServiceInstance>,
    run: DryRun,
}

/// As [`Snapshot::view`], asking stages what they would say; `None` = nothing to choose from at all.
fn walk<'a>(
    snapshot: &'a Snapshot,
    request: &Request<'_>,
    picks: u32,
    mut said: Option<&mut Vec<Narrowing>>,
) -> Option<Way<'a>> {
    let mut node = snapshot.root.as_ref()?;
    let mut way = Way { view: &node.view, wanted: None, group: None, refused: None };
    for stage in &*snapshot.stages {
        let Some(branch) = node.next.as_deref() else { break };
        let selection = stage.rehearse(request, &branch.groups, picks);
        let (decision, name, next) = match selection {
            Selection::Group(group) => {
                let name = branch.groups.iter().nth(group.0 as usize).map(|(_, name)| name);
                let next = branch.nodes.get(group.0 as usize).or(branch.all.as_ref());
                way.wanted = None;
                way.group = name.map(|name| (stage.name(), name)).or(way.group);
                ("group", name.map(str::to_owned), next)
            }
            Selection::All => ("all", None, branch.all.as_ref()),
            Selection::Instance(instance) => {
                let wanted = branch.states.get(instance.0 as usize);
                way.wanted = way.wanted.or(wanted);
                ("instance", wanted.map(|state| state.instance().to_string()), branch.all.as_ref())
            }
            Selection::Nothing => {
                way.refused = Some(Refused { stage: &**stage, groups: &branch.groups });
                ("nothing", None, None)
            }
        };
        if let Some(next) = next {
            node = next;
            way.view = &node.view;
        }
        if let Some(said) = &mut said {
            said.push(narrowing(&**stage, branch, request, (decision, name), way.view));
        }
        if way.refused.is_some() || next.is_none() {
            break;
        }
    }
    Some(way)
}

fn narrowing(
    stage: &dyn RequestStage,
    branch: &Branch,
    request: &Request<'_>,
    (decision, name): (&str, Option<String>),
    view: &View,
) -> Narrowing {
    let sizes = branch.groups.iter().zip(&branch.nodes);
    let groups =
        sizes.map(|((_, name), node)| GroupSize { name: safe(name), spread: node.view.states().len() });
    let why = (decision == "nothing").then(|| {
        let (reason, detail) = stage.refusal(request, &branch.groups);
        safe(&detail.unwrap_or_else(|| reason.to_string()))
    });
    Narrowing {
        stage: stage.name().to_owned(),
        decision: decision.to_owned(),
        name: name.as_deref().map(safe),
        leaves: if decision == "nothing" { 0 } else { view.states().len() },
        groups: groups.take(SHOWN).collect(),
        left_off: branch.groups.len().saturating_sub(SHOWN),
        why,
    }
}

/// What the stages inside groups do with the group that the request is picked from.
fn inside(facts: &Facts, way: &Way<'_>) -> Vec<Step> {
    if facts.chain.inner.is_empty() {
        return Vec::new();
    }
    let group = way.group.map(|(_, name)| name);
    let of = |view: &View| {
        let list = view.states().iter().map(|state| state.instance()).collect();
        facts.chain.trace_within(list, &facts.service, group)
    };
    let here: HashSet<u64> = way.view.states().iter().map(|state| state.instance().identity_hash()).collect();
    let whole = way.view.wider.as_deref().map(of).filter(|(_, left)| {
        left.len() == here.len() && left.iter().all(|instance| here.contains(&instance.identity_hash()))
    });
    // If the wider view is not the group that they narrowed, they left all of it.
    whole.unwrap_or_else(|| of(way.view)).0
}
