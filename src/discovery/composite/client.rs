use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, SelectAll};
use tokio::time::Instant;

use super::inner::{Inner, Times};
use super::stream::{Source, Subscription};
use super::verdict::{Mode, all_failed, verdict};
use crate::discovery::jitter::Jitter;
use crate::discovery::{DiscoveryClient, Lists, SourceHealth, SourceState, SupplyError};
use crate::{ServiceId, ServiceInstance};

/// Several sources as one, in the order in which they are given.
///
/// By default the first source with a non-empty list answers, as in Spring; [`merge`](Self::merge) takes the instances
/// of all of them, where of two with one identity that of the earlier source counts.
///
/// **A source that gives no answer** (an error, a panic, more than 8 s) counts with its own last good list. It is
/// passed over only if it never answered for that service, or not within the
/// [bound on staleness](Self::with_stale_bound). If that leaves no source at all, there is no answer, and the error names
/// each of them. No source at all is an empty answer.
///
/// **Watching** works if one of the sources can be watched. Those that cannot are asked every 30 s (jittered by a tenth)
/// meanwhile. The first list waits up to 8 s for the sources that it depends on, so that a start does not flip through
/// them. A watch that breaks is subscribed again after 1 s, doubling to 30 s; a list is pushed only when the common
/// answer changes.
///
/// ```
/// use evenkeel::discovery::{CompositeDiscovery, DiscoveryClient, SimpleDiscovery};
/// use evenkeel::{ServiceId, ServiceInstance};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let registry = SimpleDiscovery::new();
/// let fallback = SimpleDiscovery::new().with_instances("orders", [ServiceInstance::new("10.0.0.1", 8080)?])?;
/// let discovery = CompositeDiscovery::default().with(registry).with(fallback);
/// assert_eq!(discovery.instances(&ServiceId::new("orders")?).await?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompositeDiscovery {
    sources: Vec<Arc<Inner>>,
    settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) mode: Mode,
    /// How old a last good list may be.
    pub(super) bound: Option<Duration>,
    /// How long one source may take.
    pub(super) limit: Duration,
    pub(super) period: Duration,
    pub(super) seed: u64,
    /// What errors call this source.
    pub(super) origin: String,
}

/// A composite of nothing, whose answer is empty.
impl Default for CompositeDiscovery {
    fn default() -> Self {
        Self::new([])
    }
}

/// What a clock can count without overflow, and nobody means less by more.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl CompositeDiscovery {
    /// A composite of `sources`, the first of which matters most.
    pub fn new(sources: impl IntoIterator<Item = Arc<dyn DiscoveryClient>>) -> Self {
        let settings = Settings {
            mode: Mode::First,
            bound: None,
            limit: Duration::from_secs(8),
            period: Duration::from_secs(30),
            seed: fastrand::u64(..),
            origin: String::new(),
        };
        let sources = sources.into_iter().map(|source| Arc::new(Inner::new(source))).collect();
        Self { sources, settings: Arc::new(settings) }.named()
    }

    /// The same with one more source, behind the others.
    #[must_use]
    pub fn with(mut self, source: impl DiscoveryClient) -> Self {
        self.sources.push(Arc::new(Inner::new(Arc::new(source))));
        self.named()
    }

    fn named(self) -> Self {
        let names: Vec<&str> = self.sources.iter().map(|inner| inner.client.name()).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        self.change(|settings| settings.origin = format!("composite of {names}"))
    }

    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Takes the instances of all sources together (default: the first non-empty list).
    #[must_use]
    pub fn merge(self) -> Self {
        self.change(|settings| settings.mode = Mode::Merge)
    }

    /// How long the last good list of a source that gives no answer counts (default `None`: without end). The age of a
    /// list that was watched begins when the watch broke.
    ///
    /// A source that keeps a last good list itself and gives it as its answer, such as a file, is not bounded by this.
    #[must_use]
    pub fn with_stale_bound(self, bound: Option<Duration>) -> Self {
        self.change(|settings| settings.bound = bound)
    }

    /// How long one source may take to answer (default 8 s, at most a day): three that hang still end within the 30 s of a
    /// look-up.
    #[must_use]
    pub fn with_source_timeout(self, limit: Duration) -> Self {
        self.change(|settings| settings.limit = limit.min(LONGEST_LIMIT))
    }

    /// How often a watch asks the sources that cannot be watched (default 30 s, jittered by a tenth; at least 1 s).
    #[must_use]
    pub fn with_period(self, period: Duration) -> Self {
        self.change(|settings| settings.period = period.max(Duration::from_secs(1)))
    }

    /// The seed of the jitter (default: random).
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.change(|settings| settings.seed = seed)
    }
}

#[async_trait]
impl DiscoveryClient for CompositeDiscovery {
    fn name(&self) -> &str {
        &self.settings.origin
    }

    /// Asks one source after the other until one has instances, or all at once to merge them.
    async fn instances(&self, service: &ServiceId) -> Result<Vec<ServiceInstance>, SupplyError> {
        let Settings { mode, bound, limit, .. } = *self.settings;
        let ask = async |inner: &Inner| inner.memory.stand(service, inner.ask(service, limit).await, bound);
        let mut stands = Vec::with_capacity(self.sources.len());
        match mode {
            Mode::Merge => stands = join_all(self.sources.iter().map(|inner| ask(inner))).await,
            Mode::First => {
                for inner in &self.sources {
                    stands.push(ask(inner).await);
                    if stands.last().is_some_and(super::verdict::Stand::has_instances) {
                        break;
                    }
                }
            }
        }
        let answer = verdict(&self.settings.origin, mode, stands);
        answer.unwrap_or_else(|| Ok(Vec::new())).map_err(|error| error.of_service(service))
    }

    fn watch(&self, service: &ServiceId) -> Option<Lists> {
        let lists: Vec<Option<Lists>> =
            self.sources.iter().map(|inner| inner.client.watch(service)).collect();
        if lists.iter().all(Option::is_none) {
            return None;
        }
        let mut answers = SelectAll::new();
        let mut sources = Vec::with_capacity(lists.len());
        for (index, (inner, lists)) in self.sources.iter().zip(lists).enumerate() {
            let seed = self.settings.seed.wrapping_add(index as u64);
            let period = Jitter::of_service(self.settings.period, seed, service);
            let pushes = lists.is_some();
            let times = Times { period, limit: self.settings.limit };
            answers.push(inner.answers(service, lists, times).map(move |answer| (index, answer)).boxed());
            let last = inner.memory.get(service);
            sources.push(Source { inner: Arc::clone(inner), pushes, last, state: None });
        }
        let subscription = Subscription::new(Arc::clone(&self.settings), service.clone(), sources, answers);
        Some(Box::pin(stream::unfold(subscription, Subscription::next)))
    }

    /// The names of all sources, each once; a source that gives no answer counts with those that it listed last.
    async fn services(&self) -> Result<Vec<ServiceId>, SupplyError> {
        let Settings { bound, limit, .. } = *self.settings;
        let answers = join_all(self.sources.iter().map(|inner| inner.ask_names(limit))).await;
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for (inner, answer) in self.sources.iter().zip(answers) {
            let mut known = inner.names.lock();
            match answer {
                Ok(names) => *known = Some((names, Instant::now())),
                Err(error) => {
                    *known = known.take().filter(|(_, at)| bound.is_none_or(|bound| at.elapsed() <= bound));
                    if known.is_none() {
                        errors.push(error);
                    }
                }
            }
            all.extend(known.iter().flat_map(|(names, _)| names).cloned());
        }
        if !errors.is_empty() && errors.len() == self.sources.len() {
            return Err(all_failed(&self.settings.origin, &errors));
        }
        // By the folded text, so that two spellings stand side by side.
        all.sort_by_cached_key(|name: &ServiceId| name.as_str().to_ascii_lowercase());
        all.dedup();
        Ok(all)
    }

    /// Failing as soon as one source is; healthy if none is and one is healthy. The figures are those of the source that
    /// failed most often in a row, the last answer that of any.
    fn health(&self) -> SourceHealth {
        let all: Vec<SourceHealth> = self.sources.iter().map(|inner| inner.health()).collect();
        let has = |state| all.iter().any(|health| health.state == state);
        let state = match () {
            () if has(SourceState::Failing) => SourceState::Failing,
            () if has(SourceState::Healthy) => SourceState::Healthy,
            () => SourceState::Unknown,
        };
        let worst =
            all.iter().filter(|health| health.last_error.is_some()).max_by_key(|health| health.failures);
        SourceHealth {
            state,
            last_ok: all.iter().filter_map(|health| health.last_ok).max(),
            last_error: worst.and_then(|health| health.last_error.clone()),
            failures: worst.map_or(0, |health| health.failures),
        }
    }
}
