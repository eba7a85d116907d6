//! The stage that leaves out who fails its health check, and the task that probes.

mod prober;
mod stage;

pub use stage::HealthStage;
