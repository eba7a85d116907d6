use std::time::Duration;

use super::SimError;

/// How a server shares its cores among the requests that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// How many are worked on at the same time; the rest waits in the order of arrival.
    pub(super) workers: usize,
    /// How many it has at most, waiting ones included.
    pub(super) most: usize,
}

impl Default for Discipline {
    /// [`processor_sharing`](Self::processor_sharing).
    fn default() -> Self {
        Self::processor_sharing()
    }
}

impl Discipline {
    /// All requests are worked on at the same time: each has an equal part of the cores, and one core at most.
    pub const fn processor_sharing() -> Self {
        Self { workers: usize::MAX, most: usize::MAX }
    }

    /// So many requests are worked on at the same time, the others wait in the order of their arrival.
    pub const fn fifo(workers: usize) -> Self {
        Self { workers, most: usize::MAX }
    }

    /// A server that has so many requests answers further ones with 503 at once (default: without limit).
    #[must_use]
    pub const fn with_limit(mut self, requests: usize) -> Self {
        self.most = requests;
        self
    }

    pub(super) fn check(self) -> Result<(), SimError> {
        if self.workers == 0 {
            return Err(SimError::invalid("number of workers", 0, "must be at least 1"));
        }
        if self.most == 0 {
            return Err(SimError::invalid("limit of requests", 0, "must be at least 1"));
        }
        Ok(())
    }
}

/// Neighbours on the machines of the servers: where one is busy, a server has its allocation only, elsewhere it may burst.
///
/// Default: 20 % of the servers are contended at a time, each for 10 s on average (exponential), and the others have 3
/// cores: the set-up in which Prequal was evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Antagonists {
    pub(super) burst: f64,
    pub(super) share: f64,
    pub(super) dwell: Duration,
}

impl Default for Antagonists {
    fn default() -> Self {
        Self { burst: 3.0, share: 0.2, dwell: Duration::from_secs(10) }
    }
}

impl Antagonists {
    /// How many times its allocation a server has that is not contended (default 3).
    #[must_use]
    pub fn with_burst(mut self, times: f64) -> Self {
        self.burst = times;
        self
    }

    /// The share of the servers that are contended at a time, 0 to 1 (default 0.2).
    #[must_use]
    pub fn with_share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// How long one is on average (default 10 s); then it is another one's turn.
    #[must_use]
    pub fn with_dwell(mut self, dwell: Duration) -> Self {
        self.dwell = dwell;
        self
    }

    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::within("burst of a server", self.burst, 1.0, 1e6)?;
        SimError::within("share of contended servers", self.share, 0.0, 1.0)?;
        SimError::positive("dwell of antagonists", self.dwell.as_secs_f64())
    }
}

/// How long a message is on its way, one way; the defaults are nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    pub(super) same_zone: Duration,
    pub(super) other_zone: Duration,
}

impl Network {
    /// So long within a zone, and so long between two. Servers without a zone are in that of every client.
    pub const fn new(same_zone: Duration, other_zone: Duration) -> Self {
        Self { same_zone, other_zone }
    }
}
