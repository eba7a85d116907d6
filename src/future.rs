use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Timeout, timeout_at};

/// A boxed future, as slow paths return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pin_project! {
    /// A future that may have to be done at some time; see [`within`].
    #[project = WithinProjection]
    pub(crate) enum Within<F> {
        Free { #[pin] future: F },
        Timed { #[pin] timed: Timeout<F> },
    }
}

/// What comes of `future`; `None` if it is not done at `end`.
///
/// A block that awaits either the one or the other has room for both, and for the future before it is known which; this holds
/// it once. A large one is better lent, by `pin!`: then it is not moved either.
pub(crate) fn within<F: Future>(end: Option<Instant>, future: F) -> Within<F> {
    match end {
        Some(end) => Within::Timed { timed: timeout_at(end, future) },
        None => Within::Free { future },
    }
}

impl<F: Future> Future for Within<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            WithinProjection::Free { future } => future.poll(cx).map(Some),
            WithinProjection::Timed { timed } => timed.poll(cx).map(Result::ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_future_is_done_in_time_or_given_up() {
        let slow = || tokio::time::sleep(Duration::from_millis(20));
        let end = |millis| Instant::now().checked_add(Duration::from_millis(millis));
        assert_eq!(within(None, slow()).await, Some(()));
        assert_eq!(within(end(30), slow()).await, Some(()));
        assert_eq!(within(end(10), slow()).await, None);
    }
}
