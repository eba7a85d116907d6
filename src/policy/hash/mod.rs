//! Policies that send a key to one instance, and few keys elsewhere when the list changes.
//!
//! `key` makes a hash of a request, `member` names of instances; `ring` and `maglev_table` are what leads from the one to
//! the other, as plain data; `held` has them made, `picker` goes by them. All of it is the same in every process, whatever
//! the order of its list, so that clients agree.

mod bound;
mod dubbo;
mod held;
mod key;
mod maglev;
mod maglev_table;
mod md5;
mod member;
mod picker;
mod rendezvous;
mod ring;
mod ring_hash;
mod table;
mod xx;

#[cfg(test)]
mod tests;

pub use dubbo::DubboConsistentHash;
pub use key::HashKey;
pub use maglev::Maglev;
pub use rendezvous::Rendezvous;
pub use ring_hash::RingHash;
