//! Why, and what now: reports on a balancer, made when somebody asks. Nothing here is on the path of a pick.

mod differences;
mod dry;
mod explain;
mod facts;
mod lines;
mod overrides;
mod row;
mod status;

pub(super) use differences::note_list;
pub(super) use overrides::{Active, Overrides, Ring, resolve};
pub use overrides::{OverrideError, OverrideId};

use super::LoadBalancer;
use super::snapshot::Snapshot;
use crate::observe::{Change, ChangeKind, millis, safe};
use crate::state::ServiceState;
use crate::wall;

impl LoadBalancer {
    /// The last changes of the service, the oldest first: what the source listed, who was skipped, what was configured.
    ///
    /// The last 256 are kept, in memory of a bounded size. [`changes`](Self::changes) is something else: it follows the
    /// versions of the list.
    ///
    /// ```
    /// use evenkeel::observe::ChangeKind;
    /// use evenkeel::{LoadBalancer, ServiceInstance};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
    /// orders.ready().await?;
    /// assert_eq!(orders.change_log()[0].kind, ChangeKind::Listed);
    /// # Ok(()) }
    /// ```
    pub fn change_log(&self) -> Vec<Change> {
        let service = self.service_state();
        let now = service.wall().now();
        let one = |noted: crate::state::Noted| {
            let age = noted.at.elapsed();
            Change {
                number: noted.number,
                at: wall::format(now.checked_sub(age).unwrap_or(std::time::UNIX_EPOCH)),
                age_ms: millis(age),
                kind: noted.kind,
                instance: noted.instance.map(|instance| instance.to_string()),
                detail: safe(&noted.detail),
                times: noted.times,
                first_age_ms: millis(noted.first.elapsed()),
            }
        };
        service.noted().into_iter().map(one).collect()
    }
}

/// Notes what a new snapshot means beside the list: that there is nothing to choose, or that too few are well.
pub(super) fn note_snapshot(
    service: &ServiceState,
    before: Option<&Snapshot>,
    now: &Snapshot,
    (was_open, open): (bool, bool),
) {
    let nothing = before.is_some_and(|before| before.root.is_none());
    match (nothing, now.root.is_none()) {
        (false, true) => {
            let why = now.why.clone().unwrap_or_else(|| now.reason.to_string());
            service.note(ChangeKind::NothingToChoose, None, why);
        }
        (true, false) => service.note(ChangeKind::ChoiceAgain, None, format!("{} instances", now.len())),
        _ => {}
    }
    if was_open != open {
        let (kind, detail) = if open {
            (ChangeKind::PanicOn, "none passes its health check: all are used")
        } else {
            (ChangeKind::PanicOff, "health checks pass again")
        };
        service.note(kind, None, detail);
    }
}
