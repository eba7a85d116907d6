use std::time::Duration;

/// By what instances are taken out. Thresholds of 0 are off.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detection {
    pub(crate) interval: Duration,
    pub(crate) time: EjectionTime,
    pub(crate) limits: Limits,
    pub(crate) consecutive: u32,
    pub(crate) consecutive_gateway: u32,
    pub(crate) consecutive_local: u32,
    pub(crate) success_rate: Option<SuccessRate>,
    pub(crate) failure_percentage: Option<FailurePercentage>,
    /// An answer that says when to come again is taken at its word.
    pub(crate) retry_after: bool,
}

/// How long an instance stays out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EjectionTime {
    pub(crate) base: Duration,
    pub(crate) max: Duration,
    /// Up to so much is added, by chance.
    pub(crate) jitter: Duration,
    pub(crate) growth: Growth,
}

/// How that grows with each time in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// By the base, as Envoy does; one step less for each interval in use.
    Linear,
    /// Twofold, as Ribbon's breaker does; a good answer ends it.
    Doubling,
}

impl EjectionTime {
    /// The time out of use of the `times`-th ejection in a row, from 1.
    pub(crate) fn of(self, times: u32) -> Duration {
        let factor = match self.growth {
            Growth::Linear => times.max(1),
            // Ribbon stops at 2^16.
            Growth::Doubling => 1 << times.saturating_sub(1).min(16),
        };
        self.base.saturating_mul(factor).min(self.max.max(self.base))
    }

    /// The same with its jitter; `random` is any number.
    pub(crate) fn drawn(self, times: u32, random: u64) -> Duration {
        let jitter = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        #[allow(clippy::cast_possible_truncation)] // the upper half of the product is below the jitter
        let more = ((u128::from(random) * u128::from(jitter)) >> 64) as u64;
        self.of(times).saturating_add(Duration::from_nanos(more))
    }
}

/// How many instances may be out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of all that are listed, in percent.
    pub(crate) max_percent: u32,
    /// One may be out even if that is more.
    pub(crate) always_one: bool,
    /// Of all that are listed, so many stay in use whatever happens, in percent.
    pub(crate) min_available_percent: u32,
}

impl Limits {
    /// Whether one more may go, when of `listed` instances so many are `ejected`, and so many `out` of use for any reason.
    pub(crate) fn admit(self, listed: usize, ejected: usize, out: usize) -> bool {
        let percent = |of: u32| listed as u128 * u128::from(of);
        let within = (ejected as u128 + 1) * 100 <= percent(self.max_percent);
        let first = self.always_one && ejected == 0;
        let left = listed.saturating_sub(out + 1) as u128 * 100;
        out < listed && (within || first) && left >= percent(self.min_available_percent)
    }
}

/// Those whose success rate is far below the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SuccessRate {
    pub(crate) min_hosts: u32,
    pub(crate) request_volume: u32,
    /// How many standard deviations below.
    pub(crate) deviations: f64,
}

/// Those that fail too often, whatever the others do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FailurePercentage {
    pub(crate) min_hosts: u32,
    pub(crate) request_volume: u32,
    /// In percent; reached is enough.
    pub(crate) threshold: f64,
}
