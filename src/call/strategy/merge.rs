use std::fmt;
use std::future::Future;

use futures_util::future::join_all;

use super::failsafe::pass_over;
use super::limits::Attempt;
use super::{Answered, CallError, Failfast, Protocol, Strategy};
use crate::call::attempts::Judged;
use crate::{Choice, LoadBalancer, Outcome, Request};

/// One call to each of several groups of instances, side by side, and one answer made of theirs: the menu of all kitchens.
///
/// A group is what a [hint](Request::with_hint) names. Within a group the call is made once ([`Failfast`]), or as another
/// [`Strategy`] says. A group that fails is left out, and the log told as by [`Failsafe`](super::Failsafe); if all fail,
/// the call does. One whose answer speaks against its instance, as a 503, has failed.
///
/// What a hint means is up to the chain ([`with_hints`](crate::SupplierBuilder::with_hints)): one that no instance has stands
/// for all instances, as in Spring.
///
/// ```
/// use evenkeel::call::Merge;
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance, SupplierBuilder};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let kitchen = |host, group| ServiceInstance::builder(host).port(80).with_metadata("hint", group).build();
/// let list = [kitchen("a.test", "hot")?, kitchen("b.test", "cold")?];
/// let menus = LoadBalancer::builder(SupplierBuilder::new("menus").with_instances(list).with_hints().build()?).build();
/// let send = |choice: &Choice, _| {
///     let dish = if choice.instance().host() == "a.test" { "soup" } else { "salad" };
///     Some(async move { Ok::<_, std::io::Error>(vec![dish]) })
/// };
/// let merge = Merge::of(["hot", "cold"]);
/// let menu = merge.run(&menus, &Request::EMPTY, |_| Outcome::Success, send, |all| all.concat()).await?;
/// assert_eq!(menu, ["soup", "salad"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Merge<T = Failfast> {
    groups: Vec<String>,
    strategy: T,
}

impl Merge {
    /// The groups of these hints, in this order.
    pub fn of<S: Into<String>>(groups: impl IntoIterator<Item = S>) -> Self {
        Self { groups: groups.into_iter().map(Into::into).collect(), strategy: Failfast::default() }
    }
}

impl<T: Strategy> Merge<T> {
    /// Sets how the call is made within each group.
    #[must_use]
    pub fn with_strategy<U: Strategy>(self, strategy: U) -> Merge<U> {
        Merge { groups: self.groups, strategy }
    }

    /// Makes the calls; `merge` gets the responses of the groups that answered, in the order of the groups. Their leases end
    /// before.
    ///
    /// # Errors
    /// That of the last group, if all failed; an answer that counts as a failure is told by its
    /// [outcome](CallError::outcomes). Without any group `merge` gets nothing.
    pub async fn run<R, E, J, S, F, M>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        classify: J,
        send: S,
        merge: impl FnOnce(Vec<R>) -> M,
    ) -> Result<M, CallError<E>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: Fn(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        self.run_with(balancer, request, &Judged(classify), send, merge).await
    }

    /// [`run`](Self::run) for a [`Protocol`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with<R, E, P, S, F, M>(
        &self,
        balancer: &LoadBalancer,
        request: &Request<'_>,
        protocol: &P,
        send: S,
        merge: impl FnOnce(Vec<R>) -> M,
    ) -> Result<M, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: Fn(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        let send = &send;
        let calls = self.groups.iter().map(|group| async move {
            let request = request.with_hint(group);
            let sent = |choice: &Choice, attempt| send(choice, attempt);
            let answered = self.strategy.run_with(balancer, &request, protocol, sent).await?;
            let Answered { response, lease, instance, .. } = answered;
            let outcome = protocol.outcome(Ok(&response));
            lease.complete(outcome);
            if outcome.is_bad() {
                return Err(CallError::rejected(balancer.service_id(), instance, outcome));
            }
            Ok(response)
        });
        let (mut responses, mut failed) = (Vec::new(), Vec::new());
        for result in join_all(calls).await {
            match result {
                Ok(response) => responses.push(response),
                Err(error) => failed.push(error),
            }
        }
        if responses.is_empty()
            && let Some(error) = failed.pop()
        {
            return Err(error);
        }
        for error in &failed {
            pass_over(balancer, error);
        }
        Ok(merge(responses))
    }
}
