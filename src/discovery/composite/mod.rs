//! Several sources as one: the first that has instances, or all of them together.
//!
//! The hard part is a source that gives no answer. Were it passed over, an outage of the registry would move all
//! traffic to whatever stands behind it; were it fatal, the other sources would be of no use. So a source that errs
//! counts with its own last good list, for as long as the bound on staleness allows.

mod client;
mod inner;
mod memory;
mod stream;
mod verdict;

#[cfg(test)]
mod tests;

pub use client::CompositeDiscovery;
