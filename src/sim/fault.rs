use std::time::Duration;

use super::{Nanos, SimError, nanos};

/// What is wrong with a server for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// It refuses connections: calls end as [`Failure::Connect`](crate::Failure::Connect). What it has already goes on.
    Refuse,
    /// It takes calls and never answers; they end with the deadline.
    BlackHole,
    /// It answers 500 after so long, without any work.
    FailFast(Duration),
    /// Everything takes so many times as long.
    Slow(f64),
    /// A share of its answers, 0 to 1, is a 500; they take as long as good ones.
    Grey(f64),
    /// It stands still: a long collection of garbage.
    Pause,
    /// By turns, it refuses connections for `down` and works for `up`.
    Flapping {
        /// How long it refuses.
        down: Duration,
        /// How long it works.
        up: Duration,
    },
}

impl Fault {
    pub(super) fn check(self) -> Result<(), SimError> {
        match self {
            Self::Slow(times) => SimError::within("slowness of a server", times, 1e-6, 1e9),
            Self::Grey(rate) => SimError::within("error rate of a server", rate, 0.0, 1.0),
            Self::Flapping { down, up } => {
                SimError::positive("period of a flapping server", down.saturating_add(up).as_secs_f64())
            }
            Self::Refuse | Self::BlackHole | Self::FailFast(_) | Self::Pause => Ok(()),
        }
    }

    /// How many times as long work takes; nothing is done at 0 times the speed.
    pub(super) fn speed(self) -> f64 {
        match self {
            Self::Slow(times) => 1.0 / times,
            Self::Pause => 0.0,
            _ => 1.0,
        }
    }

    /// Whether a connection is refused `since` its beginning.
    pub(super) fn refuses(self, since: Nanos) -> bool {
        match self {
            Self::Refuse => true,
            Self::Flapping { down, up } => {
                let (down, period) = (nanos(down), nanos(down.saturating_add(up)));
                since % period.max(1) < down
            }
            _ => false,
        }
    }
}
