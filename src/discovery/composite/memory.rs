//! The last good lists of each source.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::verdict::Stand;
use crate::discovery::SupplyError;
use crate::{ServiceId, ServiceInstance};

/// How many services are remembered for each source. Names come from callers, who may make many of them up; the one
/// that answered longest ago goes first.
const SERVICES: usize = 4_096;

/// A list and when it was last known to hold.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub(super) list: Arc<[ServiceInstance]>,
    pub(super) at: Instant,
}

impl Remembered {
    /// When this list no longer counts, if it ever does.
    pub(super) fn end(&self, bound: Option<Duration>) -> Option<Instant> {
        self.at.checked_add(bound?)
    }

    pub(super) fn counts(&self, bound: Option<Duration>) -> bool {
        self.end(bound).is_none_or(|end| Instant::now() <= end)
    }
}

/// What one source answered, by service.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<ServiceId, Remembered>>);

impl Memory {
    pub(super) fn get(&self, service: &ServiceId) -> Option<Remembered> {
        self.0.lock().get(service).cloned()
    }

    pub(super) fn record(&self, service: &ServiceId, list: Arc<[ServiceInstance]>) -> Remembered {
        let remembered = Remembered { list, at: Instant::now() };
        let mut known = self.0.lock();
        if known.len() >= SERVICES && !known.contains_key(service) {
            let oldest = known.iter().min_by_key(|(_, remembered)| remembered.at).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(service.clone(), remembered.clone());
        remembered
    }

    /// How a source stands that gave `answer`.
    pub(super) fn stand(
        &self,
        service: &ServiceId,
        answer: Result<Vec<ServiceInstance>, SupplyError>,
        bound: Option<Duration>,
    ) -> Stand {
        match answer {
            Ok(list) => Stand::Answer(self.record(service, list.into()).list),
            Err(error) => match self.get(service).filter(|last| last.counts(bound)) {
                Some(last) => Stand::Answer(last.list),
                None => Stand::Nothing(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn made_up_names_do_not_fill_it() {
        let memory = Memory::default();
        for n in 0..SERVICES + 10 {
            memory.record(&ServiceId::new(format!("s{n}")).unwrap(), Arc::default());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(memory.0.lock().len(), SERVICES);
        assert!(memory.get(&ServiceId::new("s9").unwrap()).is_none());
        assert!(memory.get(&ServiceId::new("S10").unwrap()).is_some());
    }
}
