use std::borrow::Cow;

use super::HashKey;
use super::bound::Factor;
use super::maglev_table::ENTRIES;
use super::picker::ByTable;
use super::table::Plan;
use crate::policy::{Candidates, Picker, Policy};

/// A key goes to the instance that owns its entry of a table, in which each instance has its share nearly to the entry.
///
/// The most even of the hashes, and the fastest: one look into a table. The price is that a change of the list also moves
/// a few keys between instances that stay, some thousandths of all. Maglev (Eisenbud and others, 2016), with weights as in
/// Envoy.
///
/// Defaults: a table of 65 537 entries, which keeps the shares of up to 1 000 equal instances within a hundredth, and no bound
/// on the load.
///
/// ```
/// use evenkeel::policy::{HashKey, Maglev};
///
/// let policy = Maglev::new(HashKey::cookie("sid")).with_table_size(655_373);
/// ```
#[derive(Clone, Debug)]
pub struct Maglev {
    key: HashKey,
    entries: u32,
    factor: Option<Factor>,
}

impl Maglev {
    /// By this key.
    pub fn new(key: HashKey) -> Self {
        Self { key, entries: ENTRIES, factor: None }
    }

    /// The entries of every table, the next prime at or above it (default: 65 537; at most 5 000 011, and at least one for
    /// each instance). Take a hundred for each instance that the list may have one day: in a table of another size, nearly
    /// every key moves. Each group of a service has a table of its own, of 2 bytes an entry, from 65 536 instances on 4.
    #[must_use]
    pub fn with_table_size(self, entries: u32) -> Self {
        Self { entries, ..self }
    }

    /// The most that an instance may have in flight, in percent of its share (default: no bound); as
    /// [`RingHash::with_balance_factor`](super::RingHash::with_balance_factor).
    #[must_use]
    pub fn with_balance_factor(self, percent: u32) -> Self {
        Self { factor: Some(Factor::percent(percent)), ..self }
    }
}

impl Policy for Maglev {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("maglev")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let key = (&self.key, HashKey::hash as _);
        Box::new(ByTable::new(set, key, Plan::Maglev(self.entries), self.factor))
    }
}
