//! Techniques of load balancers elsewhere, with the numbers that are published of them: `lbs_...`.
//!
//! Rings and tables by themselves - sizes, shares, what moves - are tested beside them, in `src/policy/hash/`.

mod support;

#[path = "lbs"]
mod lbs {
    mod cases;
    mod fleet;
    mod hashing;
    mod keys;
    mod load_reports;
    mod panic;
    mod policy_options;
    mod properties;
    mod zones;
}
