//! What properties say of ejections and slow starts, as the states of instances need it; and which instances begin to warm up.

use std::collections::HashSet;
use std::time::Duration;

use super::list::{List, Member};
use super::snapshot::Snapshot;
use crate::ServiceInstance;
use crate::config::{OutlierDetectionProperties, OutlierMode, SlowStartCurve, SlowStartProperties};
use crate::state::{Detection, EjectionTime, FailurePercentage, Growth, Limits, Shape, SuccessRate, Warmth};

/// The shortest interval: a shorter one would be looked at all the time.
const SHORTEST: Duration = Duration::from_millis(10);

/// `None` when nothing is ejected.
pub(super) fn detection(properties: &OutlierDetectionProperties) -> Option<Detection> {
    let interval = properties.interval.max(SHORTEST);
    let detection = match properties.mode {
        OutlierMode::CircuitBreaker => {
            let breaker = &properties.circuit_breaker;
            Detection {
                interval,
                time: EjectionTime {
                    base: breaker.trip_timeout_factor,
                    max: breaker.trip_max_timeout,
                    jitter: Duration::ZERO,
                    growth: Growth::Doubling,
                },
                limits: Limits { max_percent: 100, always_one: true, min_available_percent: 0 },
                consecutive: 0,
                consecutive_gateway: 0,
                consecutive_local: breaker.failure_threshold.max(1),
                success_rate: None,
                failure_percentage: None,
                retry_after: false,
            }
        }
        OutlierMode::Envoy => {
            let (rate, percentage) = (&properties.success_rate, &properties.failure_percentage);
            Detection {
                interval,
                time: EjectionTime {
                    base: properties.base_ejection_time,
                    max: properties.max_ejection_time,
                    jitter: properties.max_ejection_time_jitter,
                    growth: Growth::Linear,
                },
                limits: Limits {
                    max_percent: properties.max_ejection_percent,
                    always_one: properties.max_ejection_percent > 0,
                    min_available_percent: properties.min_available_percent,
                },
                consecutive: properties.consecutive_errors,
                consecutive_gateway: properties.consecutive_gateway_errors,
                consecutive_local: properties.consecutive_local_errors,
                success_rate: rate.enabled.then(|| SuccessRate {
                    min_hosts: rate.minimum_hosts,
                    request_volume: rate.request_volume,
                    deviations: f64::from(rate.stdev_factor) / 1_000.0,
                }),
                failure_percentage: percentage.enabled.then(|| FailurePercentage {
                    min_hosts: percentage.minimum_hosts,
                    request_volume: percentage.request_volume,
                    threshold: f64::from(percentage.threshold),
                }),
                retry_after: properties.retry_after,
            }
        }
    };
    properties.enabled.then_some(detection)
}

/// `None` when nothing warms up.
pub(super) fn warmth(properties: &SlowStartProperties) -> Option<Warmth> {
    #[allow(clippy::cast_possible_truncation)] // a curve needs no more than 24 bits
    let aggression = Some(properties.aggression as f32).filter(|value| *value > 0.0 && value.is_finite());
    let shape = match properties.curve {
        SlowStartCurve::Power => Shape::Power { aggression: aggression.unwrap_or(1.0) },
        SlowStartCurve::Steps => Shape::Steps,
    };
    #[allow(clippy::cast_precision_loss)] // at most 100
    let min = properties.min_percent.clamp(1, 100) as f32 / 100.0;
    (!properties.window.is_zero()).then_some(Warmth { window: properties.window, min, shape })
}

/// A slow start for each member that was not in use before: one that is seen for the first time, and one that a stage left out,
/// a health check above all, while the source listed it. One that the source forgot for a moment has worked on meanwhile.
pub(super) fn warm_up(list: &List, members: &[Member], before: Option<&Snapshot>, first: bool) {
    let left: Vec<_> = before
        .into_iter()
        .flat_map(Snapshot::members)
        .map(|(state, _)| state)
        .filter(|state| members.binary_search_by_key(&state.uid(), |member| member.uid).is_err())
        .collect();
    if !left.is_empty() {
        let listed: HashSet<u64> = list.named.iter().map(ServiceInstance::identity_hash).collect();
        left.iter()
            .filter(|state| listed.contains(&state.instance().identity_hash()))
            .for_each(|state| state.leave_out());
    }
    for member in members {
        if !member.listed.is_available() {
            // Where traffic is divided, who fails its health check stays among the members.
            member.state.leave_out();
        } else if member.state.let_in() && !first {
            member.state.warm_up();
        }
    }
}
