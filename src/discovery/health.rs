use parking_lot::Mutex;
use tokio::time::Instant;

use super::SupplyError;

/// How a source of instances is doing, as far as its answers tell.
///
/// [`DiscoveryClient::health`](super::DiscoveryClient::health) gives it; a source that nobody asked yet is
/// [`SourceState::Unknown`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SourceHealth {
    /// What the last answer says.
    pub state: SourceState,
    /// When it last gave an answer, empty or not.
    pub last_ok: Option<Instant>,
    /// Why it last gave none; kept after it recovered.
    pub last_error: Option<SupplyError>,
    /// How many times in a row it gave none.
    pub failures: u32,
}

/// The state of a source; see [`SourceHealth`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceState {
    /// Nobody asked it yet, or it does not say.
    #[default]
    Unknown,
    /// The last look-up, or the watch, gave an answer.
    Healthy,
    /// The last look-up, or the watch, failed.
    Failing,
}

/// Keeps a [`SourceHealth`] for a source: report each answer to it.
#[derive(Debug, Default)]
pub struct HealthRecord(Mutex<SourceHealth>);

impl HealthRecord {
    /// Counts an answer and passes it on.
    ///
    /// # Errors
    /// The error of the answer itself.
    pub fn record<T>(&self, answer: Result<T, SupplyError>) -> Result<T, SupplyError> {
        let mut health = self.0.lock();
        match &answer {
            Ok(_) => {
                health.state = SourceState::Healthy;
                health.last_ok = Some(Instant::now());
                health.failures = 0;
            }
            Err(error) => {
                health.state = SourceState::Failing;
                health.last_error = Some(error.clone());
                health.failures = health.failures.saturating_add(1);
            }
        }
        answer
    }

    /// What is known now.
    pub fn get(&self) -> SourceHealth {
        self.0.lock().clone()
    }
}
