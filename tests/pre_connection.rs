//! New instances are connected before they get calls. On virtual time, with what connects scripted.
#![allow(missing_docs)]

mod support;

#[path = "pre_connection/fake.rs"]
mod fake;
#[path = "pre_connection/hold.rs"]
mod hold;
#[path = "pre_connection/invariants.rs"]
mod invariants;
#[path = "pre_connection/lists.rs"]
mod lists;
#[path = "pre_connection/many.rs"]
mod many;
#[path = "pre_connection/owners.rs"]
mod owners;
