//! The policies of Dubbo's cluster. Its `random` is [`RandomPick`](super::RandomPick) with weights; its `consistenthash` stands
//! with the other hashes.

mod adaptive;
mod least_active;
mod shortest_response;
mod smooth_round_robin;

pub use adaptive::Adaptive;
pub use least_active::LeastActive;
pub use shortest_response::ShortestResponse;
pub use smooth_round_robin::SmoothRoundRobin;
