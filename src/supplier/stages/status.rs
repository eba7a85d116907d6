use super::super::distribution::Standing;
use super::super::{ListStage, Rank, StageCx};
use crate::{ServiceInstance, Status};

/// Keeps what may be called by its status: up and unknown; degraded if neither is left; draining if nothing else is; down
/// never. Always on.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusStage;

const DEGRADED: Option<u8> = Some(1);

/// The lower the better; `None` is never used.
fn tier(status: Status) -> Option<u8> {
    match status {
        Status::Up | Status::Unknown => Some(0),
        Status::Degraded => Some(1),
        Status::Draining => Some(2),
        Status::Down => None,
    }
}

impl ListStage for StatusStage {
    fn name(&self) -> &'static str {
        "status"
    }

    fn rank(&self) -> Rank {
        Rank::Status
    }

    fn why_left_out(&self, instance: &ServiceInstance, _: &StageCx<'_>) -> Option<String> {
        Some(match tier(instance.status()) {
            None => "its status is down".to_owned(),
            Some(_) => format!("its status is {}, and a better one is there", instance.status()),
        })
    }

    fn apply(&self, list: &mut Vec<ServiceInstance>, cx: &StageCx<'_>) {
        let best = list.iter().filter_map(|instance| tier(instance.status())).min();
        list.retain(|instance| {
            let own = tier(instance.status());
            if cx.is_marking() && own == DEGRADED && best <= own {
                cx.mark(instance, Standing::Degraded);
                return true;
            }
            own.is_some() && own == best
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;

    #[test]
    fn the_best_tier_that_is_there_is_used() {
        use Status::{Degraded, Down, Draining, Unknown, Up};
        let service = ServiceId::new("s").unwrap();
        for (given, left) in [
            (&[Up, Degraded, Draining, Down, Unknown][..], &[Up, Unknown][..]),
            (&[Degraded, Draining, Down], &[Degraded]),
            (&[Down, Draining], &[Draining]),
            (&[Down, Down], &[]),
            (&[], &[]),
        ] {
            let mut list: Vec<_> =
                given.iter().map(|s| ServiceInstance::builder("h").status(*s).build().unwrap()).collect();
            StatusStage.apply(&mut list, &StageCx::new(&service, None));
            assert_eq!(list.iter().map(ServiceInstance::status).collect::<Vec<_>>(), left);
        }
    }
}
