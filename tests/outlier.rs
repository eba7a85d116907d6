//! Instances that real calls show to be bad are taken out, and brought back by what calls see. On virtual time.

mod support;

#[path = "outlier/breaker.rs"]
mod breaker;
#[path = "outlier/divided.rs"]
mod divided;
#[path = "outlier/ejection.rs"]
mod ejection;
#[path = "outlier/invariants.rs"]
mod invariants;
#[path = "outlier/runtimes.rs"]
mod runtimes;
#[path = "outlier/slow_start.rs"]
mod slow_start;
