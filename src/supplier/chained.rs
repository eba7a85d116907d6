use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::driver::Settings;
use super::stages::{Duplicates, StatusStage, WeightsStage};
use super::stream::Streams;
use super::{Chain, ServiceInstanceListSupplier};
use crate::ServiceId;
use crate::discovery::Lists;

/// The chain of one service, ready for a balancer; or a stream of lists by itself.
///
/// As a stream ([`get`](ServiceInstanceListSupplier::get)) it gives the list of the usable instances behind all list
/// stages, at first and after each change. A stream counts as a caller: it looks up when the list is due.
pub struct Supplier {
    pub(crate) base: Arc<dyn ServiceInstanceListSupplier>,
    pub(crate) chain: Chain,
    pub(crate) settings: Settings,
    pub(crate) runtime: Option<Handle>,
    pub(crate) seed: Option<u64>,
    pub(super) streams: Streams,
}

impl Supplier {
    /// A chain of the built-in stages alone, which nothing can make invalid.
    pub(crate) fn plain(base: impl ServiceInstanceListSupplier) -> Self {
        Self {
            base: Arc::new(base),
            chain: Chain::new(
                vec![Arc::new(Duplicates), Arc::new(StatusStage)],
                Vec::new(),
                WeightsStage::off(),
            ),
            settings: Settings::default(),
            runtime: None,
            seed: None,
            streams: Streams::default(),
        }
    }
}

impl ServiceInstanceListSupplier for Supplier {
    fn service_id(&self) -> &ServiceId {
        self.base.service_id()
    }

    fn get(&self) -> Lists {
        self.streams.stream(self)
    }
}

impl fmt::Debug for Supplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supplier")
            .field("service", self.base.service_id())
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// A chain that cannot work; it names the service and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    service: String,
    reason: String,
}

impl BuildError {
    pub(crate) fn new(service: &str, reason: String) -> Self {
        Self { service: service.to_owned(), reason }
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the chain of service {:?} cannot work: {}", self.service, self.reason)
    }
}

impl Error for BuildError {}
