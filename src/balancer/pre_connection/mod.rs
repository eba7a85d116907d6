//! New instances are connected before they get calls.
//!
//! `keeper` finds out who is new, and keeps the batches: those that came with one list. `batch` connects them, in one task.
//! Who is waited for is held in its [`InstanceState`](crate::InstanceState), as one that is skipped is, so that a pick knows
//! nothing of this.

mod batch;
mod connector;
mod keeper;

pub(super) use batch::Tries;
pub(super) use connector::Connector;
#[cfg(feature = "reqwest")]
pub(crate) use connector::Opener;
pub use connector::PreConnect;
pub(crate) use connector::{ConnectError, Openers, PreConnection};
pub(super) use keeper::Keeper;
