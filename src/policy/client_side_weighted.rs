use std::borrow::Cow;
use std::time::Duration;

use super::scan::{Weights, preferring};
use super::tables::StaticStride;
use super::{Candidates, Needs, PickCx, Picker, Policy};
use crate::InstanceState;
use crate::report::LoadReport;
use crate::sync::{AtomicU64, Ordering};

/// A round robin weighted by what instances say of their load: client-side weighted round robin, as in gRPC (gRFC A58) and
/// Envoy.
///
/// ```text
/// weight = qps / (utilisation + eps / qps * penalty)
/// ```
///
/// The utilisation is that of the application if it tells it, else the largest of the metrics of
/// [`with_metric`](Self::with_metric) (gRFC A114), else that of the processors. Reports come with replies: hand them over with
/// [`Choice::report`](crate::Choice::report); the clients of this crate do so by themselves where a header or a trailer has
/// one (`endpoint-load-metrics`, `endpoint-load-metrics-bin`). One without requests per second or utilisation changes nothing.
///
/// An instance without a weight counts as the mean of the others; with fewer than two weights it is a plain round robin. A
/// weight is used when its instance has been telling for 10 s (the blackout: a server that has just started tells of few
/// requests), and for 3 minutes after the last report; then the blackout begins anew, as it does for an instance that was
/// out of use. Weights are made anew each second in which there are picks, one pick of 16 looks whether they are due. Weights
/// of the chain multiply. An instance that failed just now is passed by while its failures count as load: one that fails all
/// its calls tells nothing, and would keep its weight.
///
/// It costs a counter and some looks per pick (the number of instances times the mean weight over the largest one, at most
/// about ten), and what it takes to read a report for each reply that has one.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::policy::ClientSideWeightedRoundRobin;
///
/// let policy = ClientSideWeightedRoundRobin::default().with_blackout(Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct ClientSideWeightedRoundRobin {
    blackout: Duration,
    expiration: Duration,
    update: Duration,
    penalty: f64,
    metrics: Vec<String>,
    start: Option<u64>,
}

impl Default for ClientSideWeightedRoundRobin {
    fn default() -> Self {
        Self {
            blackout: Duration::from_secs(10),
            expiration: Duration::from_secs(180),
            update: Duration::from_secs(1),
            penalty: 1.0,
            metrics: Vec::new(),
            start: None,
        }
    }
}

/// Weights are made no more often, as in gRPC: they would only follow noise.
const LEAST_UPDATE: Duration = Duration::from_millis(100);

impl ClientSideWeightedRoundRobin {
    /// For how long an instance must have been telling before its weight is used (default 10 s).
    #[must_use]
    pub fn with_blackout(mut self, blackout: Duration) -> Self {
        self.blackout = blackout;
        self
    }

    /// For how long a weight is used after the last report (default 3 min).
    #[must_use]
    pub fn with_expiration(mut self, expiration: Duration) -> Self {
        self.expiration = expiration;
        self
    }

    /// How often weights are made (default 1 s; at least 100 ms).
    #[must_use]
    pub fn with_update_period(mut self, update: Duration) -> Self {
        self.update = update.max(LEAST_UPDATE);
        self
    }

    /// How much the part of errors among the requests counts beside the utilisation (default 1; 0 = not at all).
    #[must_use]
    pub fn with_error_penalty(mut self, penalty: f64) -> Self {
        self.penalty = penalty;
        self
    }

    /// One more metric that says how busy an instance is, by its name in a report ([`LoadReport::metric`]); the largest of
    /// them counts where the application itself tells nothing (default: none).
    #[must_use]
    pub fn with_metric(mut self, name: impl Into<String>) -> Self {
        self.metrics.push(name.into());
        self
    }

    /// The turn that the first pick has (default: a random one, so that clients that start together do not go to one server).
    #[must_use]
    pub fn starting_at(mut self, turn: u64) -> Self {
        self.start = Some(turn);
        self
    }

    /// The weight that follows from a report; `None` if it says too little.
    ///
    /// ```
    /// use evenkeel::LoadReport;
    /// use evenkeel::policy::ClientSideWeightedRoundRobin;
    ///
    /// let policy = ClientSideWeightedRoundRobin::default();
    /// let report = LoadReport::default().with_qps(100.0).with_cpu_utilization(0.5).with_eps(50.0);
    /// assert_eq!(policy.weight(&report), Some(100.0));
    /// ```
    pub fn weight(&self, report: &LoadReport) -> Option<f64> {
        let good = |value: &f64| value.is_finite() && *value > 0.0;
        let of_metrics = || {
            let values = self.metrics.iter().filter_map(|name| report.metric(name)).filter(good);
            values.reduce(f64::max)
        };
        let qps = Some(report.qps).filter(good)?;
        let utilization = Some(report.application_utilization)
            .filter(good)
            .or_else(of_metrics)
            .or_else(|| Some(report.cpu_utilization).filter(good))?;
        let penalty = Some(report.eps / qps * self.penalty).filter(good).unwrap_or_default();
        Some(qps / (utilization + penalty)).filter(good)
    }
}

impl Policy for ClientSideWeightedRoundRobin {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("client-side-weighted-round-robin")
    }

    fn needs(&self) -> Needs {
        Needs::REPORTS
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let scheduler = Scheduler {
            stride: StaticStride::even(set.len()),
            weights: Weights::of(set),
            due: AtomicU64::new(0),
            blackout: nanos(self.blackout),
            expiration: nanos(self.expiration),
            update: nanos(self.update),
        };
        scheduler.weigh(set.now(), |at| set.state(at));
        Box::new(scheduler)
    }

    fn start(&self, random: u64) -> u64 {
        self.start.unwrap_or(random)
    }

    fn on_report(&self, instance: &InstanceState, report: &LoadReport) {
        if let (Some(stats), Some(weight)) = (instance.statistics(), self.weight(report)) {
            if instance.is_skipped() {
                // The call that probes it.
                stats.forget_weight();
            }
            let expiration = u64::try_from(self.expiration.as_nanos()).unwrap_or(u64::MAX);
            stats.weigh(weight, instance.service().now(), expiration);
        }
    }
}

struct Scheduler {
    stride: StaticStride,
    weights: Weights,
    /// When the weights are made next, on the service's clock.
    due: AtomicU64,
    blackout: u64,
    expiration: u64,
    update: u64,
}

/// One turn of so many looks at the clock.
const LOOK: u64 = 16;

impl Scheduler {
    /// The weight of an instance by its reports.
    fn weight(&self, now: u64, state: &InstanceState) -> Option<f64> {
        let stats = state.statistics()?;
        if state.is_skipped() {
            stats.forget_weight();
            return None;
        }
        stats.weight(now, self.blackout, self.expiration)
    }

    /// Makes the weights, if they are due.
    #[inline(never)]
    fn weigh<'a>(&self, now: u64, state: impl Fn(usize) -> &'a InstanceState) {
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(self.update);
        if now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.stride.set(|at| self.weight(now, state(at)), |at| self.weights.real(at));
        }
    }

    fn turn(&self, cx: &mut PickCx<'_>) -> usize {
        cx.turn_until(|cx, turn| {
            // A rehearsal goes by the weights at hand, and leaves it to a call to make others.
            if turn.is_multiple_of(LOOK) && !cx.rehearses() {
                let now = cx.now();
                self.weigh(now, |at| cx.state(at));
            }
            self.stride.at(turn)
        })
    }
}

impl Picker for Scheduler {
    fn rehearses(&self) -> bool {
        true
    }

    #[inline]
    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        preferring(cx, false, |cx| self.turn(cx), |cx, at| !cx.state(at).is_failing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbs_weights_of_reports() {
        let policy = ClientSideWeightedRoundRobin::default;
        let report = |cpu: f64, eps: f64| {
            LoadReport::default().with_qps(100.0).with_cpu_utilization(cpu).with_eps(eps)
        };
        for (penalty, report, expected) in [
            (1.0, report(0.5, 0.0), 200.0),
            (1.0, report(0.5, 10.0), 166.67),
            (1.0, report(0.5, 50.0), 100.0),
            (2.0, report(0.5, 10.0), 142.86),
            (1.0, report(0.25, 0.0), 400.0),
            (0.0, report(0.5, 50.0), 200.0),
            (1.0, report(0.9, 0.0).with_application_utilization(0.5), 200.0),
            (-1.0, report(0.5, 50.0), 200.0),
        ] {
            let found = policy().with_error_penalty(penalty).weight(&report).unwrap();
            assert!((found - expected).abs() < 0.005, "{found} instead of {expected}");
        }
        for nothing in [
            LoadReport::default(),
            report(0.0, 0.0),
            report(f64::NAN, 1.0),
            report(-1.0, 0.0),
            LoadReport::default().with_cpu_utilization(0.5),
            LoadReport::default().with_cpu_utilization(0.5).with_qps(f64::INFINITY),
        ] {
            assert_eq!(policy().weight(&nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn lbs_the_largest_of_the_named_metrics_says_how_busy_one_is() {
        let policy = ClientSideWeightedRoundRobin::default()
            .with_metric("named_metrics.queue")
            .with_metric("utilization.disk")
            .with_metric("nobody");
        let weight = |queue: f64, disk: f64| {
            let report = LoadReport::default().with_qps(100.0).with_cpu_utilization(0.1);
            policy.weight(&report.with_named_metric("queue", queue).with_utilization("disk", disk))
        };
        assert_eq!(weight(0.5, 0.25), Some(200.0));
        assert_eq!(weight(0.25, 0.5), Some(200.0));
        assert_eq!(weight(f64::NAN, 0.5), Some(200.0));
        assert_eq!(weight(-3.0, 0.0), Some(1_000.0), "then the processors");
    }
}
