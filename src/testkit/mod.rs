//! Checks that a policy can be put to, also one of your own: what a load balancer gets wrong in production, each with a bound.
//!
//! | check | what must hold | what it catches |
//! |---|---|---|
//! | [`shares`](Kit::shares) | equal instances get equal shares | a favourite, a starved one |
//! | [`weights`](Kit::weights) | with weights, shares go by them | weights that are not honoured, or rounded away |
//! | [`bursts`](Kit::bursts) | no long runs, no full windows | weights realised by repetition |
//! | [`turns`](Kit::turns) | a list that changes all the time favours nobody | a rotation that starts anew with each list |
//! | [`keys`](Kit::keys) | an instance that goes moves its own keys | a hash modulo the number of instances |
//! | [`herd`](Kit::herd) | a newcomer gets its part, and no flood | a score of 0 for who is not known yet |
//! | [`broken_server`](Kit::broken_server) | one that fails fast gets 1 % at most | latencies or counts without outcomes |
//! | [`conservation`](Kit::conservation) | after calls of all ends, all is as before | counts that forget a call which was given up |
//!
//! ```
//! use evenkeel::policy::{PeakEwma, RoundRobin};
//! use evenkeel::testkit::{Check, Kit};
//!
//! let kit = Kit::new().with_seed(7);
//! kit.shares(PeakEwma::default).unwrap();
//! let fault = kit.broken_server(RoundRobin::default).unwrap_err();
//! assert_eq!(fault.check(), Check::BrokenServer);
//! assert!(fault.to_string().starts_with("broken server: round-robin: "), "{fault}");
//! ```
//!
//! Every check is deterministic by the seed of its [`Kit`]. Where chance decides, the bound is one that a policy which is
//! right breaks once in a million seeds. Not every policy is meant to pass every check: round robin looks at no outcome, so
//! that a broken server keeps its share until it is ejected. Which of the built-in ones leaves out what, and why, is a
//! table in `tests/testkit.rs`.

mod bench;
mod check;
mod finding;
mod kit;
mod statistics;

pub use check::Check;
pub use finding::{Finding, Passed};
pub use kit::Kit;
