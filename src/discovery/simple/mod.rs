//! Instances from code or configuration.

mod client;
mod configured;

pub use client::SimpleDiscovery;
