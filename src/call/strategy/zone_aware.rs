use std::cmp::Reverse;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::limits::Attempt;
use super::{Answered, CallError, Failover, Protocol, Strategy};
use crate::call::PushBack;
use crate::call::attempts::Judged;
use crate::{Choice, LoadBalancer, Outcome, Request, Weight};

/// One service over several balancers, such as one for each registry or region: Dubbo's zone-aware cluster.
///
/// Which of them gets a call:
/// 1. one that is [preferred](Member::preferred), if somebody of it is in use;
/// 2. one in the zone of the call, if somebody of it is in use; if none is and the zone is forced, the call is an error;
/// 3. of all others with somebody in use, one by chance, by their [weights](Member::weight);
/// 4. the first.
///
/// Within it the call is made by a [`Strategy`], by default [`Failover`]. One that has nothing to choose, or that cannot be
/// reached at all, is followed by the next one of this order: two levels of balancing do not make two ways to fail. They share
/// the time of the call: its bound ([`Strategy::time_limit`]) holds for all of them together.
///
/// The zone of a call is the attribute `registry_zone` of its request, else [`with_zone`](Self::with_zone); it is forced if
/// the attribute `registry_zone_force` is `true`, as Dubbo's attachments have it. Zones are compared without case.
///
/// ```
/// use evenkeel::call::{Member, ZoneAware};
/// use evenkeel::{Choice, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let north = LoadBalancer::fixed("orders", [ServiceInstance::new("north.test", 80)?])?;
/// let south = LoadBalancer::fixed("orders", [ServiceInstance::new("south.test", 80)?])?;
/// let strategy = ZoneAware::of([Member::new(north).zone("north"), Member::new(south).zone("south")]).with_zone("south");
/// let send = |_: &Choice, _| Some(async { Ok::<_, std::io::Error>(()) });
/// let answer = strategy.run(&Request::EMPTY, |_| Outcome::Success, send).await?;
/// assert_eq!(answer.instance.host(), "south.test");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ZoneAware<T = Failover> {
    members: Arc<[Member]>,
    zone: Option<String>,
    strategy: T,
}

/// One balancer of a [`ZoneAware`] cluster.
#[derive(Clone, Debug)]
pub struct Member {
    balancer: LoadBalancer,
    zone: Option<String>,
    weight: Weight,
    preferred: bool,
}

impl Member {
    /// In no zone, with a weight of 1, not preferred.
    pub fn new(balancer: LoadBalancer) -> Self {
        Self { balancer, zone: None, weight: Weight::ONE, preferred: false }
    }

    /// Sets the zone that it stands for. Default: none.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets its part of the calls that no zone decides; 0 gets none of them while another is in use. Default: 1.
    #[must_use]
    pub fn weight(mut self, weight: Weight) -> Self {
        self.weight = weight;
        self
    }

    /// Gives it every call as long as somebody of it is in use. Default: not.
    #[must_use]
    pub fn preferred(mut self) -> Self {
        self.preferred = true;
        self
    }

    /// Whether somebody of it is in use. One whose list nobody has asked for yet may have somebody.
    fn is_available(&self) -> bool {
        self.balancer.snapshot().is_none_or(|list| list.all_instances().any(|state| !state.is_skipped()))
    }

    fn is_in(&self, zone: &str) -> bool {
        self.zone.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(zone))
    }
}

/// The attributes of a request that name its zone, and whether no other will do.
const ZONE: &str = "registry_zone";
const FORCE: &str = "registry_zone_force";

impl ZoneAware {
    /// Over these balancers.
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        Self { members: members.into_iter().collect(), zone: None, strategy: Failover::default() }
    }
}

impl<T> ZoneAware<T> {
    /// Sets the zone of calls that name none. Default: none.
    #[must_use]
    pub fn with_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets how the call is made within a balancer. Default: [`Failover`].
    #[must_use]
    pub fn with_strategy<U: Strategy>(self, strategy: U) -> ZoneAware<U> {
        ZoneAware { members: self.members, zone: self.zone, strategy }
    }

    /// The members that may get a call, the best first; `Err` has the zone that nobody is in.
    fn order(&self, request: &Request<'_>) -> Result<Vec<&Member>, String> {
        let zone = request.attribute(ZONE).or(self.zone.as_deref()).filter(|zone| !zone.is_empty());
        let forced = request.attribute(FORCE).is_some_and(|force| force.eq_ignore_ascii_case("true"));
        let mut left: Vec<(&Member, bool)> =
            self.members.iter().map(|member| (member, member.is_available())).collect();
        // Stable: of those alike the first.
        left.sort_by_key(|(member, available)| {
            let near = zone.is_some_and(|zone| member.is_in(zone));
            Reverse((*available && member.preferred, *available && near, *available))
        });
        let best = |member: &Member| member.preferred || zone.is_some_and(|zone| member.is_in(zone));
        if let Some(zone) = zone.filter(|_| forced) {
            left.retain(|(member, available)| *available && best(member));
            if left.is_empty() {
                return Err(zone.to_owned());
            }
        }
        let decided = left.iter().take_while(|(member, available)| *available && best(member)).count();
        let open = left.iter().filter(|(_, available)| *available).count();
        // Of those that nothing decides, the one that chance takes goes first.
        if let Some(at) = by_weight(&left[decided..open.max(decided)]) {
            left[decided..=decided + at].rotate_right(1);
        }
        Ok(left.into_iter().map(|(member, _)| member).collect())
    }
}

/// One of them by chance, by their weights.
fn by_weight(members: &[(&Member, bool)]) -> Option<usize> {
    let weights = || members.iter().map(|(member, _)| member.weight.thousandths());
    let total: u128 = weights().map(u128::from).sum();
    let chance = members.first()?.0.balancer.chance();
    // Below the total, since the chance is below 2^64.
    let mut drawn = (u128::from(chance) * total) >> 64;
    weights().position(|weight| {
        let hit = drawn < u128::from(weight);
        drawn = drawn.saturating_sub(u128::from(weight));
        hit
    })
}

impl<T: Strategy> ZoneAware<T> {
    /// Makes the call; see [`Strategy::run`].
    ///
    /// # Errors
    /// [`CallError`]: that of the last balancer that was asked; [`is_nowhere`](CallError::is_nowhere) if there is none, or
    /// none in the forced zone.
    pub async fn run<R, E, J, S, F>(
        &self,
        request: &Request<'_>,
        classify: J,
        send: S,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        J: Fn(Result<&R, &E>) -> Outcome,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        self.run_with(request, &Judged(classify), send).await
    }

    /// [`run`](Self::run) for a [`Protocol`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with<R, E, P, S, F>(
        &self,
        request: &Request<'_>,
        protocol: &P,
        mut send: S,
    ) -> Result<Answered<R>, CallError<E>>
    where
        E: fmt::Display,
        P: Protocol<R, E>,
        S: FnMut(&Choice, Attempt) -> Option<F>,
        F: Future<Output = Result<R, E>>,
    {
        let order = self.order(request).map_err(|zone| CallError::nowhere(Some(zone), self.zones()))?;
        let mut failed = None;
        let protocol = Bounded::new(protocol, self.strategy.time_limit());
        for member in order {
            if failed.is_some() && protocol.deadline().is_some_and(|end| end <= Instant::now()) {
                break;
            }
            let sent = |choice: &Choice, attempt| send(choice, attempt);
            match self.strategy.run_with(&member.balancer, request, &protocol, sent).await {
                Ok(answered) => return Ok(answered),
                // What cannot be sent again keeps the error of when it was.
                Err(error) if error.is_unsendable() && failed.is_some() => break,
                Err(error) if error.is_unreached() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(|| CallError::nowhere(None, Vec::new())))
    }

    fn zones(&self) -> Vec<String> {
        self.members.iter().filter_map(|member| member.zone.clone()).collect()
    }
}

/// A protocol whose calls all have one end: one that follows on another has what that one left.
struct Bounded<'a, P> {
    protocol: &'a P,
    end: Option<Instant>,
}

impl<'a, P> Bounded<'a, P> {
    fn new(protocol: &'a P, limit: Option<Duration>) -> Self {
        Self { protocol, end: limit.and_then(|limit| Instant::now().checked_add(limit)) }
    }
}

/// What strategies ask of a protocol.
impl<R, E, P: Protocol<R, E>> Protocol<R, E> for Bounded<'_, P> {
    fn outcome(&self, result: Result<&R, &E>) -> Outcome {
        self.protocol.outcome(result)
    }

    fn headers(&self, response: &R) -> HeaderMap {
        self.protocol.headers(response)
    }

    fn push_back(&self, result: Result<&R, &E>) -> PushBack {
        self.protocol.push_back(result)
    }

    fn deadline(&self) -> Option<Instant> {
        self.protocol.deadline().into_iter().chain(self.end).min()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use crate::ServiceInstance;

    fn member(host: &str) -> Member {
        let list = [ServiceInstance::new(host, 80).unwrap()];
        Member::new(LoadBalancer::fixed("orders", list).unwrap())
    }

    #[tokio::test]
    async fn calls_that_nothing_decides_go_by_weight() {
        let weight = |weight: f64| Weight::new(weight).unwrap();
        let cluster = ZoneAware::of([
            member("a.test").weight(weight(1.0)),
            member("b.test").weight(weight(3.0)),
            member("c.test").weight(weight(0.0)),
        ]);
        let mut first = [0; 3];
        for _ in 0..4_000 {
            let order = cluster.order(&Request::EMPTY).unwrap();
            assert_eq!(order.len(), 3);
            let at = cluster.members.iter().position(|one| std::ptr::eq(one, order[0])).unwrap();
            first[at] += 1;
        }
        assert!(first[2] == 0 && (850..1_150).contains(&first[0]), "{first:?}");
    }

    #[tokio::test]
    async fn without_any_weight_the_first_is_taken() {
        let nothing = Weight::new(0.0).unwrap();
        let cluster = ZoneAware::of([member("a.test").weight(nothing), member("b.test").weight(nothing)]);
        let order = cluster.order(&Request::EMPTY).unwrap();
        assert!(std::ptr::eq(order[0], &raw const cluster.members[0]));
        assert!(ZoneAware::of([]).order(&Request::EMPTY).unwrap().is_empty());
    }
}
