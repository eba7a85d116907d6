//! A timer without a task: the waker of a sleeping `Sleep` does the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Sleep;

/// One timer at a time; arming it again cancels the one before, dropping it cancels the last.
///
/// A spawned task that sleeps would need to be scheduled before it can set a flag, so that a pick right after the
/// deadline would miss it; the waker runs inside the timer driver. It also costs no task. `unconstrained`, since a used-up
/// cooperative budget would wake the sleep at once, which would be a false alarm.
#[derive(Default)]
pub(crate) struct Alarm(Mutex<Option<Pin<Box<Unconstrained<Sleep>>>>>);

impl Alarm {
    /// Wakes `target` once, `after` from now on the clock of `runtime`; at once if that runtime is gone, since a flag that
    /// is set too early costs one look-up and one that is never set costs the service.
    pub(crate) fn arm<W: Wake + Send + Sync + 'static>(
        &self,
        runtime: &Handle,
        after: Duration,
        target: Arc<W>,
    ) {
        if !self.set(runtime, after, &target) {
            target.wake();
        }
    }

    /// The same for who holds a lock that `target` may need: where [`arm`](Self::arm) rings at once, nothing rings, and this is
    /// false.
    #[must_use]
    pub(crate) fn set<W: Wake + Send + Sync + 'static>(
        &self,
        runtime: &Handle,
        after: Duration,
        target: &Arc<W>,
    ) -> bool {
        let armed = catch_unwind(AssertUnwindSafe(|| {
            let _guard = runtime.enter();
            let mut sleep = Box::pin(unconstrained(tokio::time::sleep(after)));
            let waker = Waker::from(Arc::clone(target));
            match sleep.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => Some(sleep),
                Poll::Ready(()) => None,
            }
        }));
        let sleep = armed.ok().flatten();
        let is_set = sleep.is_some();
        // The old one is dropped outside the lock: that takes a lock of the timer driver.
        let old = std::mem::replace(&mut *self.0.lock(), sleep);
        drop(old);
        is_set
    }

    /// Stops it.
    pub(crate) fn cancel(&self) {
        let old = self.0.lock().take();
        drop(old);
    }
}

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Alarm")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Count {
        fn get(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_once_and_exactly() {
        let (alarm, count) = (Alarm::default(), Arc::new(Count::default()));
        alarm.arm(&Handle::current(), Duration::from_secs(35), Arc::clone(&count));
        tokio::time::advance(Duration::from_millis(34_999)).await;
        assert_eq!(count.get(), 0);
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(count.get(), 1);
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert_eq!(count.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn arming_again_and_cancelling_stop_the_one_before() {
        let (alarm, count) = (Alarm::default(), Arc::new(Count::default()));
        alarm.arm(&Handle::current(), Duration::from_secs(1), Arc::clone(&count));
        alarm.arm(&Handle::current(), Duration::from_secs(3), Arc::clone(&count));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(count.get(), 0);
        alarm.cancel();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(count.get(), 0);
        alarm.arm(&Handle::current(), Duration::ZERO, Arc::clone(&count));
        assert_eq!(count.get(), 1);
    }

    #[test]
    fn a_runtime_that_is_gone_rings_at_once() {
        let build = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (alarm, count) = (Alarm::default(), Arc::new(Count::default()));
        let runtime = build();
        let handle = runtime.handle().clone();
        alarm.arm(&handle, Duration::from_secs(35), Arc::clone(&count));
        drop(runtime);
        assert_eq!(count.get(), 1, "a timer of a runtime that goes away");
        alarm.arm(&handle, Duration::from_secs(35), Arc::clone(&count));
        assert_eq!(count.get(), 2, "a timer on a runtime that is gone");
        assert!(!alarm.set(&handle, Duration::from_secs(35), &count));
        assert_eq!(count.get(), 2, "who holds a lock is told instead");
    }
}
