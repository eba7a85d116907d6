//! A part of the list for this client.

mod low_churn;
mod spring;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use super::super::{ListStage, Rank, StageCx};
use crate::config::SubsetAlgorithm;
use crate::random::Random;
use crate::{ServiceId, ServiceInstance};

/// Keeps a part of the list that is this client's, so that thousands of instances do not mean thousands of connections.
///
/// Inside each group, behind the zone. It sees healthy instances only, so a member that fails its check is replaced, and
/// comes back with its place when it passes again. A list that is no longer than the size stays as it is, order included.
///
/// **Low churn** (the default) is one of two schemes. Both take a list by the identities of its instances: in which order
/// a registry tells them does not matter, and clients agree without a word to each other.
///
/// - Without an ordinal, *rendezvous* (Thaler and Ravishankar, 1998; gRPC's proposal A68): every instance has the score
///   SipHash-2-4 of client and instance, and the `size` largest are kept. When an instance leaves, the clients that had
///   it replace it, and nobody else changes anything. Balance is that of chance: of 300 clients with 10 of 100 instances
///   each, an instance has 30 on the mean, 19 to 44, with a standard deviation of 4.8.
/// - With an ordinal, *lots*, after the ideas of Rocksteadier subsets (Google, 2023): 32 consecutive clients are a lot,
///   and each lot has an order of its own for the instances (by SipHash-2-4 of lot and instance). Client `j` of a lot
///   begins at the `bitreverse(j) / 32`th part of that order and keeps the next `size`. So the clients of a whole lot
///   cover all instances evenly, within 1 for each lot, and other lots mix them anew, so that a dead instance's load does
///   not fall on the same few. With the same numbers an instance has 27 to 34 clients, with a standard deviation of 1.5.
///   An instance that leaves or comes changes at most two members of a client, a third of one on the mean, since places in
///   the order move by one. How many clients there are does not matter.
///
/// **Spring's** algorithm is what Spring Cloud does, to the bit: even for consecutive numbers, but it hashes the client's
/// id, which is no such thing, and nearly the whole subset changes when one instance does. With an ordinal that number
/// takes the place of the hash, which makes it the scheme of the SRE book. It takes the list in the order in which it
/// comes: in a balancer that of first sight, which clients that started at different times need not share.
///
/// ```
/// use evenkeel::supplier::Subset;
///
/// let subset = Subset::of_size(20).with_client("checkout-7f9c");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    size: usize,
    client: Option<Arc<str>>,
    ordinal: Option<u32>,
    algorithm: SubsetAlgorithm,
}

impl Default for Subset {
    fn default() -> Self {
        Self { size: 100, client: None, ordinal: None, algorithm: SubsetAlgorithm::LowChurn }
    }
}

impl From<usize> for Subset {
    fn from(size: usize) -> Self {
        Self::of_size(size)
    }
}

impl Subset {
    /// Up to so many instances (default 100); 0 is refused when the chain is built.
    #[must_use]
    pub fn of_size(size: usize) -> Self {
        Self { size, ..Self::default() }
    }

    /// What tells this client from its like; blank is none. Without it, and without an ordinal, the client is an id that
    /// the process draws once: then a restart means another subset, which one event of level info says.
    #[must_use]
    pub fn with_client(mut self, id: impl AsRef<str>) -> Self {
        let id = id.as_ref().trim();
        self.client = (!id.is_empty()).then(|| id.into());
        self
    }

    /// The number of this client among its like, from 0: a stateful set's pod and a Nomad allocation have one.
    #[must_use]
    pub fn with_ordinal(mut self, ordinal: u32) -> Self {
        self.ordinal = Some(ordinal);
        self
    }

    /// How the subset is chosen (default: low churn).
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: SubsetAlgorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// The id by which this client is known, if it has one.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.size == 0 { Err("its size is 0, which would leave nothing".to_owned()) } else { Ok(()) }
    }

    /// The same with an id, if it needs one and has none: drawn from the seed, or once for the process.
    pub(crate) fn identified(mut self, service: &ServiceId, seed: Option<u64>) -> Self {
        static PROCESS: OnceLock<Arc<str>> = OnceLock::new();
        if self.client.is_none() && self.ordinal.is_none() {
            let draw = |random: Random| -> Arc<str> { format!("{:016x}", random.next()).into() };
            let id = match seed {
                Some(seed) => draw(Random::new(Some(seed))),
                None => Arc::clone(PROCESS.get_or_init(|| {
                    let id = draw(Random::new(None));
                    tracing::info!(
                        %service, client = %id,
                        "no id of this client is known: its subsets are those of an id of this process"
                    );
                    id
                })),
            };
            self.client = Some(id);
        }
        self
    }

    fn client_or_nobody(&self) -> &str {
        self.client.as_deref().unwrap_or_default()
    }
}

impl ListStage for Subset {
    fn name(&self) -> &'static str {
        "subset"
    }

    fn rank(&self) -> Rank {
        Rank::Subset
    }

    fn why_left_out(&self, _: &ServiceInstance, _: &StageCx<'_>) -> Option<String> {
        Some(format!("it is not one of the {} of this client", self.size))
    }

    fn apply(&self, list: &mut Vec<ServiceInstance>, _: &StageCx<'_>) {
        if self.size == 0 || list.len() <= self.size {
            return;
        }
        match (self.algorithm, self.ordinal) {
            (SubsetAlgorithm::Spring, ordinal) => {
                let client = ordinal.unwrap_or_else(|| spring::hash(self.client_or_nobody()));
                *list = spring::subset(list, self.size, client);
            }
            (_, None) => low_churn::rendezvous(list, self.size, self.client_or_nobody()),
            (_, Some(ordinal)) => low_churn::lots(list, self.size, ordinal),
        }
    }
}
