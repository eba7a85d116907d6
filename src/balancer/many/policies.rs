//! The policies that have options, from properties.

use std::sync::Arc;

use super::hashing;
use crate::config::{LoadBalancerProperties, PolicyName, PolicyOptions};
use crate::policy::{
    Adaptive, AvailabilityFiltering, BestAvailable, ClientSideWeightedRoundRobin, LeastActive, LeastRequest,
    PeakEwma, Policy, RandomPick, Rendezvous, RoundRobin, ShortestResponse, SmoothRoundRobin,
    WeightedResponseTime, ZoneAvoidance,
};

/// The policy that the properties name.
pub(super) fn policy(properties: &LoadBalancerProperties) -> Arc<dyn Policy> {
    let (hash, options) = (&properties.hash, &properties.policy_options);
    match properties.policy {
        PolicyName::Random => Arc::new(RandomPick),
        PolicyName::LeastRequest => Arc::new(LeastRequest),
        PolicyName::PeakEwma => Arc::new(PeakEwma::default()),
        PolicyName::RingHash => Arc::new(hashing::ring_hash(hash)),
        PolicyName::Maglev => Arc::new(hashing::maglev(hash)),
        PolicyName::Rendezvous => Arc::new(Rendezvous::new(hashing::key(hash))),
        PolicyName::ConsistentHash => Arc::new(hashing::consistent_hash(hash)),
        PolicyName::SmoothRoundRobin => {
            Arc::new(if options.exact { SmoothRoundRobin::exact() } else { SmoothRoundRobin::default() })
        }
        PolicyName::LeastActive => {
            Arc::new(if options.exact { LeastActive::exact() } else { LeastActive::default() })
        }
        PolicyName::ShortestResponse => Arc::new(shortest_response(options)),
        PolicyName::Adaptive => {
            let adaptive = if options.exact { Adaptive::exact() } else { Adaptive::default() };
            Arc::new(adaptive.with_timeout(options.timeout).with_failure_latency(options.failure_latency))
        }
        PolicyName::WeightedResponseTime => Arc::new(weighted_response_time(options)),
        PolicyName::BestAvailable => {
            Arc::new(if options.exact { BestAvailable::exact() } else { BestAvailable::default() })
        }
        PolicyName::AvailabilityFiltering => {
            let filtering =
                if options.exact { AvailabilityFiltering::exact() } else { AvailabilityFiltering::default() };
            Arc::new(filtering.with_active_limit(options.active_limit))
        }
        PolicyName::ZoneAvoidance => Arc::new(zone_avoidance(options)),
        PolicyName::ClientSideWeightedRoundRobin => Arc::new(client_side(options)),
        _ => Arc::new(RoundRobin::default()),
    }
}

fn shortest_response(options: &PolicyOptions) -> ShortestResponse {
    let policy = if options.exact { ShortestResponse::exact() } else { ShortestResponse::default() };
    policy.with_window(options.window).with_failure_latency(options.failure_latency)
}

fn weighted_response_time(options: &PolicyOptions) -> WeightedResponseTime {
    if options.exact {
        return WeightedResponseTime::exact().with_interval(options.interval);
    }
    let policy = WeightedResponseTime::default().with_interval(options.interval);
    policy.with_failure_latency(options.failure_latency)
}

fn zone_avoidance(options: &PolicyOptions) -> ZoneAvoidance {
    let policy = if options.exact { ZoneAvoidance::exact() } else { ZoneAvoidance::default() };
    policy
        .with_triggering_load(options.triggering_load)
        .with_blackout_share(options.blackout_share)
        .with_active_limit(options.active_limit)
}

fn client_side(options: &PolicyOptions) -> ClientSideWeightedRoundRobin {
    let policy = ClientSideWeightedRoundRobin::default()
        .with_blackout(options.blackout)
        .with_expiration(options.expiration)
        .with_update_period(options.update_period)
        .with_error_penalty(options.error_penalty);
    options.metrics.iter().fold(policy, ClientSideWeightedRoundRobin::with_metric)
}
