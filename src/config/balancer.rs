//! The effective values of one service, and those of the whole process.

use super::api_version::ApiVersionProperties;
use super::cache::{CacheProperties, Staleness};
use super::choices::{HostHeader, PolicyName, Preset, StageName, ZoneMode};
use super::duration;
use super::forwarded::{StatsProperties, XForwardedProperties};
use super::hash::HashProperties;
use super::health::HealthCheckProperties;
use super::outlier::OutlierDetectionProperties;
use super::overrides::Override;
use super::policy::PolicyOptions;
use super::pre_connection::PreConnectionProperties;
use super::retry::RetryProperties;
use super::setters::setters;
use super::slow_start::SlowStartProperties;
use super::stages::{MetadataRouteProperties, WeightProperties, ZonePreferenceProperties};
use super::sticky::StickySessionProperties;
use super::subset::SubsetProperties;
use super::timing::{BackoffProperties, ServiceDiscoveryProperties};
use serde::Serialize;
use std::time::Duration;

/// How long the last list is served in an outage under the preset `kubernetes`.
///
/// Pod addresses are reused, so an old list there does not only fail, it reaches strangers; five minutes outlast a
/// restart of the control plane.
const KUBERNETES_STALENESS: Duration = Duration::from_secs(300);

/// How long the slow start of an instance takes under the preset `modern`.
///
/// Long enough for a process that compiles its code and fills its caches at the first calls, short enough for a rollout.
const MODERN_SLOW_START: Duration = Duration::from_secs(60);
/// Below half of its instances a list is more likely judged wrongly than dead; Envoy's default.
const PANIC_THRESHOLD: u8 = 50;

/// Everything one service's balancer can be told: `evenkeel.*`, the same as `spring.cloud.loadbalancer.*`.
///
/// `Default` holds the values of the preset `spring`. From files, environment and code it comes out of
/// [`Properties::effective`](super::Properties::effective).
///
/// ```
/// use evenkeel::config::{CacheProperties, LoadBalancerProperties};
/// use std::time::Duration;
///
/// let billing = LoadBalancerProperties::default()
///     .with_zone("eu-1a")
///     .with_cache(CacheProperties::default().with_ttl(Duration::from_secs(5)));
/// assert!(billing.enabled);
/// assert_eq!(billing.choose_timeout, Duration::from_secs(5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct LoadBalancerProperties {
    /// Whether requests to this service are balanced at all. Default: `true`.
    pub enabled: bool,
    /// The preset the defaults came from. Default: [`Preset::Spring`].
    pub preset: Preset,
    /// How an instance is picked. Default by preset: round robin; least request under `kubernetes`, peak EWMA under
    /// `modern`.
    pub policy: PolicyName,
    /// What a key is made of and how it is spread, for a service whose `policy` goes by one.
    pub hash: HashProperties,
    /// What else the policy can be told.
    pub policy_options: PolicyOptions,
    /// The stages of the chain. Default: [`StageName::Default`] alone; zone preference under `kubernetes`.
    pub configurations: Vec<StageName>,
    /// The zone this client runs in; blank in a file means unset. Default: unset.
    pub zone: Option<String>,
    /// When the own zone is preferred.
    pub zone_preference: ZonePreferenceProperties,
    /// The service that this process is an instance of: how many clients there are in each zone, for proportional zones.
    /// Default: `spring.application.name`, if that is set; else unset.
    pub own_service_id: Option<String>,
    /// Below this share of usable instances, in percent, all are used that are not down; 0 is never, but when none passes its
    /// health check. Default: 0; 50 under `kubernetes` and `modern`.
    pub panic_threshold: u8,
    /// How many times its part a priority's or a zone's usable instances can take before others take over; 1 to 100.
    /// Default: 1.4.
    pub overprovisioning_factor: f64,
    /// Health checks, for a service whose `configurations` name `health-check`.
    pub health_check: HealthCheckProperties,
    /// Sticky sessions, for a service whose `configurations` name `request-based-sticky-session`.
    pub sticky_session: StickySessionProperties,
    /// The part of the list for this client, for a service whose `configurations` name `subset`.
    pub subset: SubsetProperties,
    /// API versions, for a service whose `configurations` name `api-version`.
    pub api_version: ApiVersionProperties,
    /// Which instances are taken out by what calls see of them.
    pub outlier_detection: OutlierDetectionProperties,
    /// How an instance comes into use.
    pub slow_start: SlowStartProperties,
    /// How new instances are connected before they get calls.
    pub pre_connection: PreConnectionProperties,
    /// Retries of a call.
    pub retry: RetryProperties,
    /// Headers that tell an instance the logical address.
    pub x_forwarded: XForwardedProperties,
    /// What is measured.
    pub stats: StatsProperties,
    /// The hint of requests that carry none. Default: unset.
    pub hint: Option<String>,
    /// The request header that carries a hint. Default: `X-SC-LB-Hint`.
    pub hint_header_name: String,
    /// How weights are read.
    pub weight: WeightProperties,
    /// Rules that narrow the list by a part of the request, in order. Default: none.
    pub routing: Vec<MetadataRouteProperties>,
    /// How long a list is good for.
    pub cache: CacheProperties,
    /// How long the last list is served while the registry fails. Default: unbounded; 5 min under `kubernetes`.
    pub stale_if_error: Staleness,
    /// How long the last list is kept after the registry answered "none". Default: 30 s; `0` is off.
    #[serde(with = "duration::text")]
    pub empty_guard: Duration,
    /// Whether the empty guard also holds for a source that watches. Default: `true`; `false` under `kubernetes`.
    pub empty_guard_for_watch: bool,
    /// How long an empty list is good for. Default: 1 s.
    #[serde(with = "duration::text")]
    pub empty_life: Duration,
    /// The look-up.
    pub service_discovery: ServiceDiscoveryProperties,
    /// Longest that a choice waits for a list. Default: 5 s; `0` does not wait.
    #[serde(with = "duration::text")]
    pub choose_timeout: Duration,
    /// How long a choice waits for the first instance when there is none. Default: `0`, not at all.
    #[serde(with = "duration::text")]
    pub wait_for_instances: Duration,
    /// Longest that a connection may take to open; above zero. Default: 1 s.
    #[serde(with = "duration::text")]
    pub connect_timeout: Duration,
    /// Longest that an instance may send nothing, before its answer and within it; above zero. Default: unset, no limit.
    #[serde(with = "duration::optional_text")]
    pub read_timeout: Option<Duration>,
    /// The name by which the certificates of instances are verified whose host is an IP address; metadata `tls-name` of an
    /// instance comes before it. Default: unset, and then certificates have to name the address.
    pub tls_name: Option<String>,
    /// Pauses between failed attempts.
    pub backoff: BackoffProperties,
    /// Whether an `https` request may go to an instance that is not secure. Default: `false`.
    pub allow_downgrade: bool,
    /// Whom the header `Host` names. Default: the instance.
    pub host_header: HostHeader,
    /// What an operator overrides for a while: those that concern the service, whether their time has passed or not.
    /// Default: none.
    pub overrides: Vec<Override>,
}

impl Default for LoadBalancerProperties {
    fn default() -> Self {
        Self::for_preset(Preset::Spring)
    }
}

impl LoadBalancerProperties {
    /// The defaults of a preset.
    ///
    /// There is no `with_preset`: a preset changes defaults only, so it comes before the values that are set.
    ///
    /// ```
    /// use evenkeel::config::{LoadBalancerProperties, PolicyName, Preset};
    ///
    /// let pods = LoadBalancerProperties::for_preset(Preset::Kubernetes);
    /// assert_eq!(pods.policy, PolicyName::LeastRequest);
    /// ```
    pub fn for_preset(preset: Preset) -> Self {
        let kubernetes = preset == Preset::Kubernetes;
        let modern = preset == Preset::Modern;
        Self {
            enabled: true,
            preset,
            policy: match preset {
                Preset::Spring => PolicyName::RoundRobin,
                Preset::Kubernetes => PolicyName::LeastRequest,
                Preset::Modern => PolicyName::PeakEwma,
            },
            hash: HashProperties::default(),
            configurations: vec![if kubernetes { StageName::ZonePreference } else { StageName::Default }],
            policy_options: PolicyOptions::default(),
            zone: None,
            zone_preference: ZonePreferenceProperties::default().with_mode(if kubernetes {
                ZoneMode::Proportional
            } else {
                ZoneMode::AllOrNothing
            }),
            own_service_id: None,
            panic_threshold: if preset == Preset::Spring { 0 } else { PANIC_THRESHOLD },
            overprovisioning_factor: 1.4,
            health_check: HealthCheckProperties::default(),
            sticky_session: StickySessionProperties::default(),
            subset: SubsetProperties::default(),
            api_version: ApiVersionProperties::default(),
            outlier_detection: OutlierDetectionProperties::default().with_enabled(modern),
            slow_start: if modern {
                SlowStartProperties::default().with_window(MODERN_SLOW_START)
            } else {
                SlowStartProperties::default()
            },
            pre_connection: PreConnectionProperties::default(),
            retry: RetryProperties::default(),
            x_forwarded: XForwardedProperties::default(),
            stats: StatsProperties::default(),
            hint: None,
            hint_header_name: "X-SC-LB-Hint".into(),
            weight: WeightProperties::default(),
            routing: Vec::new(),
            cache: CacheProperties::default(),
            stale_if_error: if kubernetes {
                Staleness::For(KUBERNETES_STALENESS)
            } else {
                Staleness::Unbounded
            },
            empty_guard: Duration::from_secs(30),
            empty_guard_for_watch: !kubernetes,
            empty_life: Duration::from_secs(1),
            service_discovery: ServiceDiscoveryProperties::default(),
            choose_timeout: Duration::from_secs(5),
            wait_for_instances: Duration::ZERO,
            connect_timeout: Duration::from_secs(1),
            read_timeout: None,
            tls_name: None,
            backoff: BackoffProperties::default(),
            allow_downgrade: false,
            host_header: HostHeader::default(),
            overrides: Vec::new(),
        }
    }

    /// The cache as it is used: with health checks that ask for the list again (`health-check.refetch-instances`), a list is
    /// refreshed at least as often as they say.
    ///
    /// ```
    /// use evenkeel::config::{HealthCheckProperties, LoadBalancerProperties, StageName};
    /// use std::time::Duration;
    ///
    /// let check = HealthCheckProperties::default()
    ///     .with_refetch_instances(true)
    ///     .with_refetch_instances_interval(Duration::from_secs(10));
    /// let orders = LoadBalancerProperties::default().with_health_check(check);
    /// assert_eq!(orders.caching().ttl, Duration::from_secs(35));      // nobody checks
    /// let orders = orders.with_configurations([StageName::HealthCheck]);
    /// assert_eq!(orders.caching().ttl, Duration::from_secs(10));
    /// ```
    pub fn caching(&self) -> CacheProperties {
        let cache = self.cache.clone();
        if !self.health_check.refetch_instances || !self.configurations.contains(&StageName::HealthCheck) {
            return cache;
        }
        let ttl = cache.ttl.min(self.health_check.refetch_instances_interval);
        cache.with_ttl(ttl)
    }

    setters! {
        /// Sets whether requests are balanced at all. Default: `true`.
        with_enabled(enabled: bool) = enabled;
        /// Sets how an instance is picked. Default: round robin.
        with_policy(policy: PolicyName) = policy;
        /// Sets what a key is made of and how it is spread.
        with_hash(hash: HashProperties) = hash;
        /// Sets what else the policy can be told.
        with_policy_options(policy_options: PolicyOptions) = policy_options;
        /// Sets the stages of the chain. Default: [`StageName::Default`] alone.
        with_configurations(configurations: impl IntoIterator<Item = StageName>) =
            configurations.into_iter().collect();
        /// Sets the zone this client runs in; blank means unset. Default: unset.
        with_zone(zone: impl AsRef<str>) = trimmed(zone.as_ref());
        /// Sets when the own zone is preferred.
        with_zone_preference(zone_preference: ZonePreferenceProperties) = zone_preference;
        /// Sets the service that this process is an instance of; blank means unset. Default: unset.
        with_own_service_id(own_service_id: impl AsRef<str>) = trimmed(own_service_id.as_ref());
        /// Sets the share of usable instances, in percent, below which all are used. Default: 0, never.
        with_panic_threshold(panic_threshold: u8) = panic_threshold;
        /// Sets how many times its part a priority or zone can take. Default: 1.4.
        with_overprovisioning_factor(overprovisioning_factor: f64) = overprovisioning_factor;
        /// Sets the health checks.
        with_health_check(health_check: HealthCheckProperties) = health_check;
        /// Sets the sticky sessions.
        with_sticky_session(sticky_session: StickySessionProperties) = sticky_session;
        /// Sets the part of the list for this client.
        with_subset(subset: SubsetProperties) = subset;
        /// Sets the API versions.
        with_api_version(api_version: ApiVersionProperties) = api_version;
        /// Sets which instances are taken out. Default: none; the preset `modern` switches it on.
        with_outlier_detection(outlier_detection: OutlierDetectionProperties) = outlier_detection;
        /// Sets how an instance comes into use. Default: at once; within 60 s under `modern`.
        with_slow_start(slow_start: SlowStartProperties) = slow_start;
        /// Sets how new instances are connected before they get calls. Default: not at all.
        with_pre_connection(pre_connection: PreConnectionProperties) = pre_connection;
        /// Sets the retries of a call.
        with_retry(retry: RetryProperties) = retry;
        /// Sets the headers that tell an instance the logical address.
        with_x_forwarded(x_forwarded: XForwardedProperties) = x_forwarded;
        /// Sets what is measured.
        with_stats(stats: StatsProperties) = stats;
        /// Sets the hint of requests that carry none; blank means unset. Default: unset.
        with_hint(hint: impl AsRef<str>) = trimmed(hint.as_ref());
        /// Sets the request header that carries a hint. Default: `X-SC-LB-Hint`.
        with_hint_header_name(hint_header_name: impl Into<String>) = hint_header_name.into();
        /// Sets how weights are read.
        with_weight(weight: WeightProperties) = weight;
        /// Sets the rules that narrow the list by a part of the request. Default: none.
        with_routing(routing: impl IntoIterator<Item = MetadataRouteProperties>) = routing.into_iter().collect();
        /// Sets how long a list is good for.
        with_cache(cache: CacheProperties) = cache;
        /// Sets how long the last list is served while the registry fails. Default: unbounded.
        with_stale_if_error(stale_if_error: Staleness) = stale_if_error;
        /// Sets how long the last list is kept after an empty answer. Default: 30 s; zero is off.
        with_empty_guard(empty_guard: Duration) = empty_guard;
        /// Sets whether the empty guard also holds for a source that watches. Default: `true`.
        with_empty_guard_for_watch(empty_guard_for_watch: bool) = empty_guard_for_watch;
        /// Sets how long an empty list is good for. Default: 1 s.
        with_empty_life(empty_life: Duration) = empty_life;
        /// Sets the limits of a look-up.
        with_service_discovery(service_discovery: ServiceDiscoveryProperties) = service_discovery;
        /// Sets the longest that a choice waits for a list. Default: 5 s.
        with_choose_timeout(choose_timeout: Duration) = choose_timeout;
        /// Sets how long a choice waits for the first instance. Default: zero, not at all.
        with_wait_for_instances(wait_for_instances: Duration) = wait_for_instances;
        /// Sets the longest that a connection may take to open. Default: 1 s.
        with_connect_timeout(connect_timeout: Duration) = connect_timeout;
        /// Sets the longest that an instance may send nothing; `None`, the default, is no limit.
        with_read_timeout(read_timeout: impl Into<Option<Duration>>) = read_timeout.into();
        /// Sets the name by which certificates of IP addresses are verified; blank means unset, and so does what is no name
        /// of a host. Default: unset.
        with_tls_name(tls_name: impl AsRef<str>) = super::read::host_name(tls_name.as_ref());
        /// Sets the pauses between failed attempts. Default: 1 s doubling to 30 s.
        with_backoff(backoff: BackoffProperties) = backoff;
        /// Sets whether an `https` request may go to an instance that is not secure. Default: `false`.
        with_allow_downgrade(allow_downgrade: bool) = allow_downgrade;
        /// Sets whom the header `Host` names. Default: the instance.
        with_host_header(host_header: HostHeader) = host_header;
        /// Sets what an operator overrides for a while. Default: none.
        with_overrides(overrides: impl IntoIterator<Item = Override>) = overrides.into_iter().collect();
    }
}

/// Text without its outer blanks, or nothing.
pub(crate) fn trimmed(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What holds for the whole process and not for one service.
///
/// ```
/// use evenkeel::config::GlobalProperties;
///
/// let global = GlobalProperties::default().with_eager_load(["orders"]);
/// assert_eq!(global.cache_capacity, 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct GlobalProperties {
    /// Services looked up at start, not at their first call: `evenkeel.eager-load.clients`. Default: none.
    pub eager_load: Vec<String>,
    /// How many services that no configuration names are kept: `evenkeel.cache.capacity`. Default: 256.
    pub cache_capacity: u64,
}

impl Default for GlobalProperties {
    fn default() -> Self {
        Self { eager_load: Vec::new(), cache_capacity: CacheProperties::default().capacity }
    }
}

impl GlobalProperties {
    setters! {
        /// Sets the services looked up at start. Default: none.
        with_eager_load(eager_load: impl IntoIterator<Item = impl Into<String>>) =
            eager_load.into_iter().map(Into::into).collect();
        /// Sets how many services that no configuration names are kept. Default: 256.
        with_cache_capacity(cache_capacity: u64) = cache_capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refetching_shortens_the_ttl_and_never_lengthens_it() {
        let seconds = |refetch: bool, interval, stages: &[StageName]| {
            let check = HealthCheckProperties::default()
                .with_refetch_instances(refetch)
                .with_refetch_instances_interval(Duration::from_secs(interval));
            let properties = LoadBalancerProperties::default()
                .with_health_check(check)
                .with_configurations(stages.iter().copied());
            let cache = properties.caching();
            (cache.ttl.as_secs(), cache.hard_age().as_secs())
        };
        let checked = [StageName::HealthCheck];
        assert_eq!(seconds(true, 10, &checked), (10, 20));
        assert_eq!(seconds(true, 60, &checked), (35, 70));
        assert_eq!(seconds(false, 10, &checked), (35, 70));
        // As in Spring, where it is the health check that asks again.
        assert_eq!(seconds(true, 10, &[StageName::Weighted]), (35, 70));
    }
}
