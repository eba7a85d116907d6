//! Where each instance stands for a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::explain::Way;
use super::facts::{Facts, LeftOut, left_out};
use super::row::Subject;
use crate::observe::{Candidate, ExplainOptions, Explanation, Standing, safe};
use crate::policy::Scores;
use crate::state::InstanceState;
use crate::supplier::Step;
use crate::{Request, ServiceInstance};

/// An instance on its way into the report.
pub(super) struct Line {
    standing: Standing,
    instance: ServiceInstance,
    state: Option<Arc<InstanceState>>,
    left_out: Option<(String, Option<String>)>,
    /// Its place in the view.
    at: Option<usize>,
}

pub(super) fn lines(facts: &Facts, way: &Way<'_>, request: &Request<'_>, steps: &[Step]) -> Vec<Line> {
    let inner = left_out(steps);
    let mut seen = HashSet::new();
    let mut lines = Vec::with_capacity(facts.listed.len());
    for (at, state) in way.view.states().iter().enumerate() {
        let tried = request.tried().is_some_and(|tried| tried.contains(state.uid()));
        let standing = if state.fits() && !tried { Standing::Candidate } else { Standing::Unfit };
        let left_out =
            tried.then(|| ("tried".to_owned(), Some("the request was sent to it before".to_owned())));
        let instance = state.instance();
        seen.insert(instance.identity_hash());
        lines.push(Line { standing, instance, state: Some(Arc::clone(state)), left_out, at: Some(at) });
    }
    let of_group = way.group.map(|(stage, name)| {
        let why = format!("it is not in group {:?}, which the request asks for", safe(name));
        (stage.to_owned(), why)
    });
    let mut wider = way.view.wider.as_deref();
    while let Some(view) = wider {
        for state in view.states() {
            let instance = state.instance();
            let hash = instance.identity_hash();
            if !seen.insert(hash) {
                continue;
            }
            let by_group = || of_group.clone().map(|(stage, why)| (stage, Some(why)));
            let left_out = inner.get(&hash).cloned().or_else(by_group);
            let state = Some(Arc::clone(state));
            lines.push(Line { standing: Standing::Reserve, instance, state, left_out, at: None });
        }
        wider = view.wider.as_deref();
    }
    lines.extend(others(facts, &seen, &left_out(&facts.steps), of_group.as_ref()));
    // Stable: of one standing, in the order of first sight.
    lines.sort_by_key(|line| line.standing);
    lines
}

/// Those of the list that are not for this request.
pub(super) fn others(
    facts: &Facts,
    seen: &HashSet<u64>,
    out: &LeftOut,
    of_group: Option<&(String, String)>,
) -> Vec<Line> {
    let rest = facts.listed.iter().filter(|instance| !seen.contains(&instance.identity_hash()));
    let line = |instance: &ServiceInstance| Line {
        standing: Standing::LeftOut,
        instance: instance.clone(),
        state: facts.state(instance).map(Arc::clone),
        left_out: out
            .get(&instance.identity_hash())
            .cloned()
            .or_else(|| of_group.map(|(stage, why)| (stage.clone(), Some(why.clone())))),
        at: None,
    };
    rest.map(line).collect()
}

pub(super) fn fill(
    explanation: &mut Explanation,
    facts: &Facts,
    lines: &[Line],
    scores: Option<&Scores>,
    shares: &HashMap<u64, u32>,
    options: ExplainOptions,
) {
    let page = options.page();
    explanation.before = page.offset().min(lines.len());
    let shown = lines.iter().skip(page.offset()).take(page.limit());
    explanation.candidates = shown
        .map(|line| {
            let spread = matches!(line.standing, Standing::Candidate | Standing::Unfit);
            let left_out = line.left_out.as_ref();
            let subject = Subject { instance: &line.instance, state: line.state.as_ref(), spread, left_out };
            let mut status = subject.row(subject.condition(), facts);
            if status.reason.is_none() || line.standing == Standing::Reserve {
                status.reason = left_out.and_then(|(_, why)| why.as_deref().map(safe)).or(status.reason);
            }
            Candidate {
                standing: line.standing,
                score: line.at.and_then(|at| scores?.of(at)),
                picks: line.state.as_ref().and_then(|state| shares.get(&state.uid()).copied()).unwrap_or(0),
                status,
            }
        })
        .collect();
    explanation.left_off = lines.len() - explanation.before - explanation.candidates.len();
}
