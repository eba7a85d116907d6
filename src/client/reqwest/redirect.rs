//! Whether a call was redirected, which its error does not tell.
//!
//! A connection that is refused means that nothing was sent; but not when it is the one to which a redirect led. reqwest's
//! error is the same for both, so the policy of redirects notes, in the task of the call, that it was asked.

use std::cell::Cell;
use std::future::Future;
use std::sync::LazyLock;

use ::reqwest::redirect::Policy;
use ::reqwest::{Client, ClientBuilder};

tokio::task_local! {
    static REDIRECTED: Cell<bool>;
}

/// The same client, which notes when it follows a redirect; a policy that the caller set stays untouched.
pub(super) fn noted(builder: ClientBuilder) -> ClientBuilder {
    if !*SHOWN || is_own(&builder) {
        return builder;
    }
    builder.redirect(Policy::custom(|attempt| {
        // Nobody watches a client that was taken out of its call.
        let _ = REDIRECTED.try_with(|redirected| redirected.set(true));
        Policy::default().redirect(attempt)
    }))
}

/// Whether it has a policy other than reqwest's default one: only its debug text tells.
fn is_own(builder: &ClientBuilder) -> bool {
    format!("{builder:?}").contains("redirect_policy")
}

/// Whether this version of reqwest has such a text. If not, every policy stays.
static SHOWN: LazyLock<bool> =
    LazyLock::new(|| is_own(&Client::builder().redirect(Policy::none())) && !is_own(&Client::builder()));

/// Awaits a call; with an error comes whether it was redirected before.
pub(super) async fn watch<T, E>(call: impl Future<Output = Result<T, E>>) -> Result<T, (E, bool)> {
    let watched = async {
        let result = call.await;
        result.map_err(|error| (error, REDIRECTED.with(Cell::get)))
    };
    REDIRECTED.scope(Cell::new(false), watched).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_a_builder_can_be_told_from_the_default() {
        assert!(*SHOWN);
        for policy in [
            Policy::none(),
            Policy::limited(3),
            Policy::custom(|attempt| Policy::limited(1).redirect(attempt)),
        ] {
            assert!(is_own(&Client::builder().redirect(policy)));
        }
        assert!(!is_own(&Client::builder().referer(false)));
    }
}
