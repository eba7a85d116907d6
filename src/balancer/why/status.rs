//! How a service is doing.

use std::collections::HashSet;

use super::super::LoadBalancer;
use super::facts::{Facts, LeftOut, left_out, stage};
use super::row::Subject;
use crate::discovery::SourceState;
use crate::observe::{
    Counts, GuardStatus, InstanceCondition, InstanceStatus, ListStatus, LookUpStatus, Page, PriorityStatus,
    ServiceStatus, SourceStatus, StageStatus, ZoneShareStatus, ZoneStatus, millis, safe,
};
use crate::supplier::driver::Sight;
use crate::supplier::{DistributionReport, Origin, PriorityReport, Rank, Step, ZoneUse};
use crate::wall;

impl LoadBalancer {
    /// How the service is doing now: source, list, stages, overrides, and every instance with its state and the reason.
    /// The first [`Page`] of instances; what is wrong stands first.
    ///
    /// It asks nobody and changes nothing, and costs nothing while nobody calls it: a call runs the stages of the chain once
    /// on the list at hand.
    pub fn status(&self) -> ServiceStatus {
        self.status_page(Page::default())
    }

    /// The same with another part of the instances.
    pub fn status_page(&self, page: Page) -> ServiceStatus {
        let (facts, sight) = (Facts::of(self), self.core.driver.sight());
        let (inner, _) = facts.chain.trace_within(facts.usable.clone(), &facts.service, None);
        let mut out = left_out(&facts.steps);
        for (instance, why) in left_out(&inner) {
            out.entry(instance).or_insert(why);
        }
        let all = conditions(&facts, &out);
        let counts = counts(&facts, &all);
        let mut order: Vec<usize> = (0..all.len()).collect();
        // Stable: of one condition, in the order of the list.
        order.sort_by_key(|at| all[*at].1);
        let shown = order.iter().skip(page.offset()).take(page.limit());
        let instances: Vec<InstanceStatus> = shown.map(|at| all[*at].0.row(all[*at].1, &facts)).collect();
        let before = page.offset().min(order.len());
        let list = list(&facts);
        let (source, guard) = (source(&sight, &facts), guard(&sight, &facts));
        let panic = panic(&facts, &all);
        let stages: Vec<StageStatus> = facts.steps.iter().chain(&inner).map(stage).collect();
        let status = ServiceStatus {
            service: facts.service.to_string(),
            at: wall::format(facts.wall),
            verdict: Vec::new(),
            closed: facts.closed,
            source,
            list,
            guard,
            look_up: look_up(&sight, &facts),
            panic,
            zone: zone(&facts, &inner),
            traffic: report(&facts)
                .map(|report| report.priorities().iter().map(traffic).collect())
                .unwrap_or_default(),
            policy: facts.policy.name().into_owned(),
            stages,
            overrides: facts.overrides.iter().map(|one| one.report(&facts.listed)).collect(),
            counts,
            left_off: order.len() - before - instances.len(),
            instances,
            before,
        };
        ServiceStatus { verdict: verdict(&status), ..status }
    }
}

/// Every instance that is listed, then those that left and have calls in flight, and how each is.
fn conditions<'a>(facts: &'a Facts, out: &'a LeftOut) -> Vec<(Subject<'a>, InstanceCondition)> {
    let spread: HashSet<u64> =
        facts.snapshot.iter().flat_map(|snapshot| snapshot.instances().map(|state| state.uid())).collect();
    let listed = facts.listed.iter().map(|instance| {
        let state = facts.state(instance);
        let spread = state.is_some_and(|state| spread.contains(&state.uid()));
        let left_out = out.get(&instance.identity_hash());
        let subject = Subject { instance, state, spread, left_out };
        (subject, subject.condition())
    });
    let gone = facts.gone.iter().map(|(instance, state)| {
        let subject = Subject { instance, state: Some(state), spread: false, left_out: None };
        (subject, InstanceCondition::Gone)
    });
    listed.chain(gone).collect()
}

fn counts(facts: &Facts, all: &[(Subject<'_>, InstanceCondition)]) -> Counts {
    let mut counts = Counts { known: facts.listed.len(), ..Counts::default() };
    let listed = all.iter().filter(|(_, how)| *how != InstanceCondition::Gone);
    for (subject, how) in listed.clone() {
        counts.in_flight += u64::from(subject.state.map_or(0, |state| state.in_flight()));
        match how {
            InstanceCondition::InUse | InstanceCondition::Warming => counts.in_use += 1,
            InstanceCondition::Failing => {
                (counts.in_use, counts.failing) = (counts.in_use + 1, counts.failing + 1);
            }
            InstanceCondition::Skipped => counts.skipped += 1,
            InstanceCondition::ProbeDue => counts.probe_due += 1,
            InstanceCondition::Probing => counts.probing += 1,
            InstanceCondition::Connecting => counts.connecting += 1,
            InstanceCondition::Down => counts.down += 1,
            InstanceCondition::Draining => counts.draining += 1,
            InstanceCondition::Ejected => counts.ejected += 1,
            InstanceCondition::LeftOut => counts.left_out += 1,
            InstanceCondition::Gone => {}
        }
    }
    let listed: HashSet<u64> = listed.filter_map(|(subject, _)| Some(subject.state?.uid())).collect();
    for state in facts.states().filter(|state| !listed.contains(&state.uid())) {
        counts.gone += 1;
        counts.in_flight += u64::from(state.in_flight());
        counts.in_flight_gone += u64::from(state.in_flight());
    }
    counts
}

fn source(sight: &Sight, facts: &Facts) -> SourceStatus {
    let ago = |at| millis(facts.now.saturating_duration_since(at));
    SourceStatus {
        state: match sight.health.state {
            SourceState::Healthy => "healthy",
            SourceState::Failing => "failing",
            SourceState::Unknown => "unknown",
        }
        .to_owned(),
        answered_ago_ms: sight.health.last_ok.map(ago),
        failures: sight.health.failures,
        error: sight.error.as_ref().map(|error| safe(&error.to_string())),
        failed_ago_ms: sight.failed.map(|(at, _)| ago(at)),
    }
}

fn list(facts: &Facts) -> Option<ListStatus> {
    let snapshot = facts.snapshot.as_ref()?;
    Some(ListStatus {
        version: snapshot.version(),
        origin: origin(snapshot.origin()).to_owned(),
        age_ms: millis(snapshot.age()),
        known: snapshot.known(),
        usable: snapshot.all_instances().len(),
        spread: snapshot.len(),
        nothing: snapshot.reason().map(|reason| snapshot.why.clone().unwrap_or_else(|| reason.to_string())),
    })
}

pub(super) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Pull => "pull",
        Origin::Push => "push",
        Origin::Guarded => "guarded",
        Origin::Stale => "stale",
        Origin::Disk => "disk",
    }
}

fn guard(sight: &Sight, facts: &Facts) -> GuardStatus {
    let since = sight.guarded_since;
    let left = |since: tokio::time::Instant| since.checked_add(sight.empty_guard);
    GuardStatus {
        on: since.is_some(),
        for_ms: since.map(|since| millis(facts.now.saturating_duration_since(since))),
        left_ms: since.and_then(left).map(|end| millis(end.saturating_duration_since(facts.now))),
    }
}

fn look_up(sight: &Sight, facts: &Facts) -> LookUpStatus {
    let next = sight.failed.and_then(|(_, next)| next).filter(|_| sight.error.is_some());
    LookUpStatus {
        busy: sight.busy && !sight.watching,
        watching: sight.watching,
        due: sight.due,
        callers_wait: sight.callers_wait,
        back_off_ms: next
            .map(|next| next.saturating_duration_since(facts.now))
            .filter(|left| !left.is_zero() && !sight.busy)
            .map(millis),
    }
}

fn report(facts: &Facts) -> Option<&DistributionReport> {
    facts.snapshot.as_ref()?.distribution()
}

fn traffic(of: &PriorityReport) -> PriorityStatus {
    let percent = |part: f64| (part * 1e5).round() / 1e3;
    let zones = match &of.zones {
        ZoneUse::Proportional { shares, .. } | ZoneUse::Weighted(shares) => shares.as_slice(),
        _ => &[],
    };
    let zone = |of: &crate::supplier::ZoneShare| ZoneShareStatus {
        zone: safe(&of.zone),
        share_percent: percent(of.share),
        instances: of.instances,
        clients: of.clients,
    };
    PriorityStatus {
        priority: of.priority,
        listed: of.listed,
        healthy: of.healthy,
        degraded: of.degraded,
        load_percent: percent(of.load),
        panic: of.panic,
        zones: zones.iter().map(zone).collect(),
    }
}

fn zone(facts: &Facts, inner: &[Step]) -> ZoneStatus {
    let own = facts.chain.zone.as_deref().map(str::to_owned);
    if let Some(report) = report(facts) {
        let with_traffic = report.priorities().iter().find(|of| of.load > 0.0);
        match with_traffic.map(|of| &of.zones) {
            Some(ZoneUse::Proportional { own, .. }) => {
                return ZoneStatus { own: Some(own.clone()), mode: "proportional".to_owned(), why: None };
            }
            Some(ZoneUse::Weighted(_)) => return ZoneStatus { own, mode: "weighted".to_owned(), why: None },
            Some(ZoneUse::Off(why)) => {
                return ZoneStatus { own, mode: "all".to_owned(), why: Some(safe(&why.to_string())) };
            }
            _ => {}
        }
    }
    let step = inner.iter().find(|step| step.rank == Some(Rank::Zone));
    let (mode, why) = match step {
        None => ("off", None),
        Some(Step { off: Some(why), .. }) => ("all", Some(why.clone())),
        Some(_) => ("own", None),
    };
    ZoneStatus { own, mode: mode.to_owned(), why }
}

fn panic(facts: &Facts, all: &[(Subject<'_>, InstanceCondition)]) -> Option<String> {
    if let Some(report) = report(facts).filter(|report| report.is_panic()) {
        let all = if report.is_total_panic() { "every priority" } else { "a priority" };
        return Some(format!("too few instances of {all} are usable: all of it are used"));
    }
    if facts.open {
        return Some("no instance passes its health check: all are used".to_owned());
    }
    let mut spread =
        all.iter().filter_map(|(subject, _)| subject.state.filter(|_| subject.spread)).peekable();
    spread.peek()?;
    let none_fits = !spread.any(|state| state.fits());
    none_fits.then(|| "every instance is out of use: picks go to those all the same".to_owned())
}

/// What is wrong, the worst first.
fn verdict(status: &ServiceStatus) -> Vec<String> {
    let mut said = Vec::new();
    let counts = &status.counts;
    if status.closed {
        said.push("CLOSED".to_owned());
    }
    match &status.list {
        None => said.push("NO LIST".to_owned()),
        Some(ListStatus { nothing: Some(nothing), .. }) => said.push(format!("NOTHING TO CHOOSE: {nothing}")),
        Some(_) => {}
    }
    if status.panic.is_some() {
        said.push("PANIC: all are used".to_owned());
    }
    if status.source.state == "failing" {
        said.push("the source does not answer".to_owned());
    }
    if status.guard.on {
        said.push("the empty guard is on".to_owned());
    }
    let out = counts.skipped + counts.ejected + counts.probe_due + counts.probing;
    if out > 0 {
        said.push(format!("{out} of {} out of use", counts.known));
    }
    if counts.connecting > 0 {
        said.push(format!("{} being connected", counts.connecting));
    }
    if counts.failing > 0 {
        said.push(format!("{} failing", counts.failing));
    }
    if counts.down > 0 {
        said.push(format!("{} down", counts.down));
    }
    if !status.overrides.is_empty() {
        said.push(match status.overrides.len() {
            1 => "an override is in force".to_owned(),
            count => format!("{count} overrides are in force"),
        });
    }
    if said.is_empty() {
        said.push("ok".to_owned());
    }
    said
}
