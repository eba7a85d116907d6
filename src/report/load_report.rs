use std::collections::BTreeMap;
use std::time::Duration;

/// What an instance says of its own load, in the terms of ORCA (Open Request Cost Aggregation, gRFC A51).
///
/// A client hands it to [`Choice::report`](crate::Choice::report) or [`Lease::report`](crate::Lease::report), and the policy of
/// the service hears of it. 0 means "not told", as in ORCA.
///
/// ```
/// use evenkeel::LoadReport;
///
/// let report = LoadReport::default().with_qps(100.0).with_cpu_utilization(0.5);
/// assert_eq!((report.qps, report.eps), (100.0, 0.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The part of the processors in use: 1 is all that the instance was given; it may be above that.
    pub cpu_utilization: f64,
    /// The part of the memory in use, from 0 to 1.
    pub mem_utilization: f64,
    /// How busy the application says it is; 1 is as much as it should do.
    pub application_utilization: f64,
    /// Requests that it serves per second, from all clients.
    pub qps: f64,
    /// Errors per second among those.
    pub eps: f64,
    /// How busy other resources are, by name.
    pub utilization: BTreeMap<String, f64>,
    /// What this one request cost, by resource.
    pub request_cost: BTreeMap<String, f64>,
    /// Anything else that the application tells.
    pub named_metrics: BTreeMap<String, f64>,
    /// What this one request took the instance, if it says so.
    pub response_time: Option<Duration>,
    /// When the instance made the report, in milliseconds on its own clock; 0 when it does not say so. A report older than
    /// one that came before is ignored by a policy that goes by it.
    pub server_time: u64,
}

/// Setters, each for the field of its name.
impl LoadReport {
    /// Sets the part of the processors in use.
    #[must_use]
    pub fn with_cpu_utilization(mut self, part: f64) -> Self {
        self.cpu_utilization = part;
        self
    }

    /// Sets the part of the memory in use.
    #[must_use]
    pub fn with_mem_utilization(mut self, part: f64) -> Self {
        self.mem_utilization = part;
        self
    }

    /// Sets how busy the application says it is.
    #[must_use]
    pub fn with_application_utilization(mut self, part: f64) -> Self {
        self.application_utilization = part;
        self
    }

    /// Sets the requests per second.
    #[must_use]
    pub fn with_qps(mut self, per_second: f64) -> Self {
        self.qps = per_second;
        self
    }

    /// Sets the errors per second.
    #[must_use]
    pub fn with_eps(mut self, per_second: f64) -> Self {
        self.eps = per_second;
        self
    }

    /// Adds how busy a resource is.
    #[must_use]
    pub fn with_utilization(mut self, name: impl Into<String>, part: f64) -> Self {
        self.utilization.insert(name.into(), part);
        self
    }

    /// Adds what this request cost of a resource.
    #[must_use]
    pub fn with_request_cost(mut self, name: impl Into<String>, cost: f64) -> Self {
        self.request_cost.insert(name.into(), cost);
        self
    }

    /// Adds a metric.
    #[must_use]
    pub fn with_named_metric(mut self, name: impl Into<String>, value: f64) -> Self {
        self.named_metrics.insert(name.into(), value);
        self
    }

    /// Sets what this request took the instance.
    #[must_use]
    pub fn with_response_time(mut self, took: Duration) -> Self {
        self.response_time = Some(took);
        self
    }

    /// Sets when the report was made, in milliseconds on the instance's clock.
    #[must_use]
    pub fn with_server_time(mut self, millis: u64) -> Self {
        self.server_time = millis;
        self
    }
}

impl LoadReport {
    /// What a provider of Dubbo's attaches to a reply: `curTime` (milliseconds), `load` (percent of the processors or a
    /// part of them, as its extension has it) and `rt` (milliseconds). A field that is missing or no number counts as 0.
    ///
    /// ```
    /// use evenkeel::LoadReport;
    ///
    /// let report = LoadReport::from_dubbo(Some("1700000000000"), Some("0.5"), Some("x"));
    /// assert_eq!((report.server_time, report.cpu_utilization), (1_700_000_000_000, 0.5));
    /// assert_eq!(report.response_time, Some(std::time::Duration::ZERO));
    /// ```
    pub fn from_dubbo(cur_time: Option<&str>, load: Option<&str>, rt: Option<&str>) -> Self {
        let whole = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok()).unwrap_or(0_u64);
        let real = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
        Self {
            server_time: whole(cur_time),
            cpu_utilization: real(load).filter(|load| load.is_finite()).unwrap_or_default(),
            response_time: Some(Duration::from_millis(whole(rt))),
            ..Self::default()
        }
    }

    /// This report of one request over what is known of the whole instance: what this one tells wins, the rest is the
    /// other's (gRFC A51).
    #[must_use]
    pub fn over(mut self, instance: &Self) -> Self {
        let told = |own: f64, other: f64| if own == 0.0 { other } else { own };
        self.cpu_utilization = told(self.cpu_utilization, instance.cpu_utilization);
        self.mem_utilization = told(self.mem_utilization, instance.mem_utilization);
        self.application_utilization = told(self.application_utilization, instance.application_utilization);
        self.qps = told(self.qps, instance.qps);
        self.eps = told(self.eps, instance.eps);
        for (own, other) in [
            (&mut self.utilization, &instance.utilization),
            (&mut self.request_cost, &instance.request_cost),
            (&mut self.named_metrics, &instance.named_metrics),
        ] {
            for (name, value) in other {
                own.entry(name.clone()).or_insert(*value);
            }
        }
        self.response_time = self.response_time.or(instance.response_time);
        self.server_time = if self.server_time == 0 { instance.server_time } else { self.server_time };
        self
    }

    /// A number by its name: a field (`cpu_utilization`, `mem_utilization`, `application_utilization`, `qps`, `eps`), an
    /// entry of a map (`utilization.<name>`, `request_cost.<name>`, `named_metrics.<name>`), or a named metric by its name alone.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let field = match name {
            "cpu_utilization" => self.cpu_utilization,
            "mem_utilization" => self.mem_utilization,
            "application_utilization" => self.application_utilization,
            "qps" => self.qps,
            "eps" => self.eps,
            _ => {
                let (map, name) = match name.split_once('.') {
                    Some(("utilization", name)) => (&self.utilization, name),
                    Some(("request_cost", name)) => (&self.request_cost, name),
                    Some(("named_metrics", name)) => (&self.named_metrics, name),
                    _ => (&self.named_metrics, name),
                };
                return map.get(name).copied();
            }
        };
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbs_a_request_wins_over_its_instance() {
        let instance = LoadReport::default()
            .with_cpu_utilization(0.2)
            .with_qps(10.0)
            .with_utilization("disk", 0.3)
            .with_named_metric("queue", 7.0);
        let request = LoadReport::default()
            .with_cpu_utilization(0.9)
            .with_eps(1.0)
            .with_named_metric("queue", 8.0)
            .with_request_cost("rows", 12.0);
        let both = request.over(&instance);
        assert_eq!(
            both,
            LoadReport::default()
                .with_cpu_utilization(0.9)
                .with_qps(10.0)
                .with_eps(1.0)
                .with_utilization("disk", 0.3)
                .with_named_metric("queue", 8.0)
                .with_request_cost("rows", 12.0)
        );
        for (name, value) in [
            ("cpu_utilization", Some(0.9)),
            ("qps", Some(10.0)),
            ("utilization.disk", Some(0.3)),
            ("request_cost.rows", Some(12.0)),
            ("named_metrics.queue", Some(8.0)),
            ("queue", Some(8.0)),
            ("utilization.queue", None),
        ] {
            assert_eq!(both.metric(name), value, "{name}");
        }
    }

    #[test]
    fn dubbo_044_fields_that_are_no_numbers_count_as_0() {
        for (time, load, rt) in
            [(None, None, None), (Some("x"), Some("NaN"), Some("-3")), (Some(""), Some("inf"), Some("1.5"))]
        {
            let report = LoadReport::from_dubbo(time, load, rt);
            assert_eq!((report.server_time, report.response_time), (0, Some(Duration::ZERO)));
            assert!(report.cpu_utilization.abs() < f64::EPSILON);
        }
    }
}
