//! An instance as a line of a report.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::pre_connection::Tries;
use super::facts::Facts;
use crate::observe::{InstanceCondition, InstanceStatus, millis, safe};
use crate::state::{Condition, InstanceState, Use};
use crate::{ServiceInstance, Status};

/// What decides on the line of an instance.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) instance: &'a ServiceInstance,
    pub(super) state: Option<&'a Arc<InstanceState>>,
    /// Some pick may take it.
    pub(super) spread: bool,
    pub(super) left_out: Option<&'a (String, Option<String>)>,
}

impl Subject<'_> {
    /// How it is. Who cannot be picked at all is what keeps it from that; else what its own calls say.
    pub(super) fn condition(&self) -> InstanceCondition {
        let condition = self.state.map(|state| state.condition());
        if !self.spread {
            return match (self.instance.status(), self.left_out) {
                (Status::Down, _) => InstanceCondition::Down,
                (Status::Draining, _) => InstanceCondition::Draining,
                (_, Some((stage, _))) if stage == "weight" => InstanceCondition::Draining,
                // Where traffic is divided, who is out of use gets none, and no stage leaves it out.
                (_, None) => condition.and_then(out_of_use).unwrap_or(InstanceCondition::LeftOut),
                _ => InstanceCondition::LeftOut,
            };
        }
        if let Some(out) = condition.and_then(out_of_use) {
            return out;
        }
        match condition {
            Some(Condition { failing: true, .. }) => InstanceCondition::Failing,
            _ if self.instance.status() == Status::Draining => InstanceCondition::Draining,
            Some(Condition { warmth: Some(_), .. }) => InstanceCondition::Warming,
            _ => InstanceCondition::InUse,
        }
    }

    pub(super) fn row(&self, how: InstanceCondition, facts: &Facts) -> InstanceStatus {
        let known = self.state.map(|state| state.condition());
        let ago = |at: Option<Instant>| at.map(|at| millis(facts.now.saturating_duration_since(at)));
        let left = |at: Option<Instant>| {
            at.map(|at| at.saturating_duration_since(facts.now)).filter(|left| !left.is_zero()).map(millis)
        };
        let (reason, for_ms, left_ms) = match (how, known) {
            (InstanceCondition::Skipped, Some(known)) => (
                Some(format!("calls could not be sent: back-off {} in a row", known.failures)),
                ago(known.since),
                left(known.until),
            ),
            (InstanceCondition::Ejected, Some(known)) => {
                (Some(ejection(&known)), ago(known.since), left(known.until))
            }
            (InstanceCondition::Connecting, Some(known)) => {
                (Some(self.connecting(facts)), ago(known.since), left(known.until))
            }
            (InstanceCondition::Warming, Some(known)) => {
                let part = known.warmth.unwrap_or(1.0) * 100.0;
                (Some(format!("it gets {part:.0} % of its share")), None, known.warm_in.map(millis))
            }
            (InstanceCondition::ProbeDue, Some(known)) => {
                let what = known.ejected.map_or("back-off", |_| "ejection");
                (Some(format!("its {what} is over: the next pick of it probes")), ago(known.since), None)
            }
            (InstanceCondition::Probing, Some(known)) => {
                (Some("a call is on its way that decides".to_owned()), ago(known.since), None)
            }
            (InstanceCondition::Failing, Some(known)) => {
                let reason = match known.counted {
                    0 => "its last answer that counts was a failure; nothing counts as load now".to_owned(),
                    calls => format!("its failures count as {calls} calls in flight"),
                };
                let reason = match known.row {
                    row @ 2.. => format!("{reason}; {row} failures in a row"),
                    _ => reason,
                };
                (Some(reason), ago(known.since), left(known.relieved))
            }
            (InstanceCondition::Gone, Some(known)) => {
                (Some("it left the list, and calls to it are in flight".to_owned()), ago(known.gone), None)
            }
            (InstanceCondition::Draining, _) => (Some(self.drained(facts)), None, None),
            _ => (self.left_out.and_then(|(_, why)| why.as_deref().map(safe)), None, None),
        };
        let latency = self.state.zip(known).filter(|(_, known)| known.is_paced).and_then(|(state, _)| {
            let service = state.service();
            let nanos = state.pace(service.now(), service.decay()).1?;
            Some((f64::from(nanos) / 1e3).round() / 1e3)
        });
        #[allow(clippy::cast_precision_loss)] // a report needs no more than 53 bits
        let weight = facts
            .chain
            .weights
            .is_on()
            .then(|| facts.chain.weights.weigh(self.instance).0.thousandths() as f64 / 1e3);
        InstanceStatus {
            instance: safe(&self.instance.to_string()),
            id: self.instance.id().to_owned(),
            state: how,
            stage: self.left_out.filter(|_| !self.spread).map(|(stage, _)| stage.clone()),
            reason,
            for_ms,
            left_ms,
            in_flight: self.state.map_or(0, |state| state.in_flight()),
            load: self.state.map_or(0, |state| state.load()),
            latency_ms: latency.filter(|latency| latency.is_finite()),
            weight,
            zone: self.instance.zone().map(str::to_owned),
            status: self.instance.status().to_string(),
            calls: self.state.map_or(0, |state| state.standing().picks),
            success_rate: self.state.and_then(|state| state.success_rate()),
        }
    }

    /// How far the connection to it is.
    fn connecting(&self, facts: &Facts) -> String {
        let said = "it gets calls once a connection to it is open";
        match self.state.and_then(|state| facts.connecting.get(&state.uid())) {
            Some(Tries { failed, last: Some(last), .. }) => {
                format!("{said}; {failed} tries failed, the last with {}", safe(last))
            }
            _ => said.to_owned(),
        }
    }

    /// Who drains it.
    fn drained(&self, facts: &Facts) -> String {
        let word = facts.overrides.iter().find(|one| one.drains(self.instance)).map(super::Active::word);
        let own = self.left_out.and_then(|(_, why)| why.clone());
        let why = word.or(own).unwrap_or_else(|| format!("its status is {}", self.instance.status()));
        if self.spread { format!("used, since nothing else is left; {why}") } else { why }
    }
}

/// What its calls showed, if that keeps it out of use.
fn out_of_use(known: Condition) -> Option<InstanceCondition> {
    Some(match (known.in_use, known.ejected) {
        (Use::Usable, None) => return None,
        (Use::Usable | Use::Skipped, Some(_)) => InstanceCondition::Ejected,
        (Use::Skipped, None) => InstanceCondition::Skipped,
        (Use::ProbeDue, _) => InstanceCondition::ProbeDue,
        (Use::Probing, _) => InstanceCondition::Probing,
        (Use::Connecting, _) => InstanceCondition::Connecting,
    })
}

/// Why an instance is ejected.
fn ejection(known: &Condition) -> String {
    let cause = known.ejected.map(|cause| cause.to_string()).unwrap_or_default();
    let rate = known.window.filter(|window| window.calls > 0 && window.failed > 0);
    let rate = rate
        .map(|window| format!("; {} of {} calls failed in the last interval", window.failed, window.calls));
    let again =
        if known.ejections > 1 { format!(", {} times in a row", known.ejections) } else { String::new() };
    let used = if known.in_use == Use::Usable { "; used all the same, since too few are left" } else { "" };
    format!("{cause}{again}{}{used}", rate.unwrap_or_default())
}
