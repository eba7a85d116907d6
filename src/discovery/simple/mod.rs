//! Instances from code or configuration.

mod client;
mod properties;

pub use client::SimpleDiscovery;
