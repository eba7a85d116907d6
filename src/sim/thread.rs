//! Where a run happens.

use std::panic::resume_unwind;
use std::thread;

/// Does `work` on a thread of its own, with a paused runtime.
///
/// A thread, since a caller that is inside a runtime cannot start another one; and whatever a thread remembers (the
/// generator of chance among it) is then the same for each run. A panic is the caller's.
pub(crate) fn on_own_thread<T: Send>(
    seed: u64,
    work: impl AsyncFnOnce() -> T + Send,
) -> Result<T, std::io::Error> {
    // Whoever listens to the log of the caller hears the run.
    let log = tracing::dispatcher::get_default(Clone::clone);
    thread::scope(|scope| {
        let run = move || {
            fastrand::seed(seed);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
            Ok(tracing::dispatcher::with_default(&log, || runtime.block_on(work())))
        };
        let handle = thread::Builder::new().name("evenkeel-sim".to_owned()).spawn_scoped(scope, run)?;
        handle.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
