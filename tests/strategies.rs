//! Strategies: who is called, when, how often, and what is left behind.

mod support;

#[path = "strategies"]
mod strategies {
    mod attempts;
    mod common;
    mod failback;
    mod hedging;
    mod invariants;
    mod several;
    mod storm;
    mod throttles;
    mod told;
}
