//! The conformance cases of Dubbo's cluster, numbered as in its fact sheet: `dubbo_NNN_...`.
//!
//! A case that pins a fault, or that this crate decides otherwise, tests the right behaviour and has a row in
//! `dubbo/DIFFERENCES.md`; one that cannot be had here has a row in `dubbo/NOT_APPLICABLE.md`. Cases 033, 036, 037 and 039 also
//! look at the points of rings, in `src/policy/hash/tests.rs`.
#![allow(clippy::doc_markdown)] // names of products in headings

mod support;

#[path = "dubbo"]
mod dubbo {
    mod adaptive;
    mod common;
    mod consistent_hash;
    mod count;
    mod load;
    mod smooth;
    mod strategies;
}
