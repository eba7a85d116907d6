use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What making pickers may cost the thread that publishes a list, in entries of tables: some ten milliseconds, which is what
/// the rest of the work for a long list takes.
const MEANS: u64 = 400_000;

/// What the pickers of one list share while it is published: a chain with groups has one for each.
pub(crate) struct Publishing {
    id: u64,
    left: AtomicU64,
    made: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Publishing {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { id, left: AtomicU64::new(MEANS), made: Mutex::default() }
    }

    /// A number that no other has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether work of this size may be done here; then it counts as done.
    pub(crate) fn affords(&self, work: u64) -> bool {
        let less = |left: u64| left.checked_sub(work);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// What was left last for a picker of the same set: the whole list stands twice in the tree of most services.
    pub(crate) fn made<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.made.lock().clone()?.downcast().ok()
    }

    /// Leaves something for the next picker.
    pub(crate) fn leave(&self, made: Arc<dyn Any + Send + Sync>) {
        *self.made.lock() = Some(made);
    }
}
