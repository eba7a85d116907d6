//! The rules of Netflix Ribbon. Its round robin and random are those of this crate; its breaker is the state of the instance.

mod availability;
mod best_available;
mod weighted_response_time;
mod zone_avoidance;
mod zones;

pub use availability::AvailabilityFiltering;
pub use best_available::BestAvailable;
pub use weighted_response_time::WeightedResponseTime;
pub use zone_avoidance::ZoneAvoidance;
