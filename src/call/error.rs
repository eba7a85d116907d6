use std::error::Error;
use std::fmt;

use crate::{BuildError, ChooseError, Failure, Outcome, ServiceId, ServiceInstance};

/// Why a call came to nothing.
pub struct CallError<E>(Box<Kind<E>>);

enum Kind<E> {
    Choose(ChooseError),
    /// The error of the last attempt; `None` if its time was up. Strategies tell how each attempt ended.
    Call {
        service: ServiceId,
        tried: Vec<ServiceInstance>,
        outcomes: Vec<Outcome>,
        error: Option<E>,
    },
    /// An answer that counts as a failure, where only good ones are wanted.
    Rejected {
        service: ServiceId,
        tried: [ServiceInstance; 1],
        outcomes: [Outcome; 1],
    },
    Throttled(ServiceId),
    Unsendable(ServiceId),
    Refused(BuildError),
    /// No balancer for it: of this zone, if that is why, and the zones that there are.
    Nowhere(Option<String>, Vec<String>),
}

impl<E> CallError<E> {
    pub(crate) fn call(service: &ServiceId, tried: Vec<ServiceInstance>, error: E) -> Self {
        Self(Box::new(Kind::Call {
            service: service.clone(),
            tried,
            outcomes: Vec::new(),
            error: Some(error),
        }))
    }

    /// The attempts of a strategy, and the error of the last one; `None` if its time was up.
    pub(super) fn ended(
        service: &ServiceId,
        attempts: Vec<(ServiceInstance, Outcome)>,
        error: Option<E>,
    ) -> Self {
        let (tried, outcomes) = attempts.into_iter().unzip();
        Self(Box::new(Kind::Call { service: service.clone(), tried, outcomes, error }))
    }

    /// The time of the last attempt was up.
    pub(super) fn late(service: &ServiceId, tried: Vec<ServiceInstance>) -> Self {
        let service = service.clone();
        Self(Box::new(Kind::Call { service, tried, outcomes: Vec::new(), error: None }))
    }

    /// The answer of an instance counts as a failure.
    pub(super) fn rejected(service: &ServiceId, instance: ServiceInstance, outcome: Outcome) -> Self {
        let (tried, outcomes) = ([instance], [outcome]);
        Self(Box::new(Kind::Rejected { service: service.clone(), tried, outcomes }))
    }

    /// The client refused it by itself.
    pub(super) fn throttled(service: &ServiceId) -> Self {
        Self(Box::new(Kind::Throttled(service.clone())))
    }

    pub(crate) fn choose(error: ChooseError) -> Self {
        Self(Box::new(Kind::Choose(error)))
    }

    pub(super) fn unsendable(service: &ServiceId) -> Self {
        Self(Box::new(Kind::Unsendable(service.clone())))
    }

    /// There is no balancer that may get it.
    pub(super) fn nowhere(zone: Option<String>, zones: Vec<String>) -> Self {
        Self(Box::new(Kind::Nowhere(zone, zones)))
    }

    pub(super) fn is_unsendable(&self) -> bool {
        matches!(&*self.0, Kind::Unsendable(_))
    }

    /// Whether nobody has heard of the call; only the strategies tell it.
    pub(super) fn is_unreached(&self) -> bool {
        let never_sent = Outcome::Failure(Failure::Connect);
        let outcomes = self.outcomes();
        self.choose_error().is_some()
            || !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == never_sent)
    }

    /// The service has no balancer.
    pub(crate) fn refused(error: BuildError) -> Self {
        Self(Box::new(Kind::Refused(error)))
    }

    /// The instances that were tried, in order; none if there was nothing to choose.
    pub fn tried(&self) -> &[ServiceInstance] {
        match &*self.0 {
            Kind::Call { tried, .. } => tried,
            Kind::Rejected { tried, .. } => tried,
            _ => &[],
        }
    }

    /// How the attempts on the instances of [`tried`](Self::tried) ended, one for one; only the
    /// [strategies](crate::call::Strategy) tell it.
    pub fn outcomes(&self) -> &[Outcome] {
        match &*self.0 {
            Kind::Call { outcomes, .. } => outcomes,
            Kind::Rejected { outcomes, .. } => outcomes,
            _ => &[],
        }
    }

    /// Whether the time of the call, or of its last attempt, was up without an answer or an error.
    pub fn is_timeout(&self) -> bool {
        matches!(&*self.0, Kind::Call { error: None, .. })
    }

    /// Whether an [`AdaptiveThrottle`](crate::call::AdaptiveThrottle) refused the call, so that nothing was sent.
    pub fn is_throttled(&self) -> bool {
        matches!(&*self.0, Kind::Throttled(_))
    }

    /// Whether none of the balancers of a [`ZoneAware`](crate::call::ZoneAware) cluster may get the call: there is none, or
    /// none with anybody in use in the zone that it insists on.
    pub fn is_nowhere(&self) -> bool {
        matches!(&*self.0, Kind::Nowhere(..))
    }

    /// Whether the instance did its work and the error is the call's own (not found, not allowed, not valid): another
    /// instance would say the same. Only the [strategies](crate::call::Strategy) tell it.
    pub fn is_business(&self) -> bool {
        let last = self.outcomes().last();
        self.call_error().is_some() && last.is_some_and(|last| !last.is_bad() && *last != Outcome::Cancelled)
    }

    /// Why nothing was chosen, if that is what happened.
    pub fn choose_error(&self) -> Option<&ChooseError> {
        match &*self.0 {
            Kind::Choose(error) => Some(error),
            _ => None,
        }
    }

    /// Why the service has no balancer, if that is what happened.
    pub fn build_error(&self) -> Option<&BuildError> {
        match &*self.0 {
            Kind::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// The error of the last attempt, untouched.
    pub fn call_error(&self) -> Option<&E> {
        match &*self.0 {
            Kind::Call { error, .. } => error.as_ref(),
            _ => None,
        }
    }

    /// The error of the last attempt.
    pub fn into_call_error(self) -> Option<E> {
        match *self.0 {
            Kind::Call { error, .. } => error,
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Choose(error) => error.fmt(f),
            Kind::Refused(error) => error.fmt(f),
            Kind::Call { service, tried, outcomes, error } => {
                write!(f, "a call to service {service:?} failed (tried ")?;
                for (at, instance) in tried.iter().enumerate() {
                    write!(f, "{}{instance}", if at == 0 { "" } else { ", then " })?;
                    if let Some(outcome) = outcomes.get(at) {
                        write!(f, ": {outcome}")?;
                    }
                }
                match error {
                    Some(error) => write!(f, "): {error}"),
                    None if tried.is_empty() => f.write_str("none): its time was up"),
                    None => f.write_str("): its time was up"),
                }
            }
            Kind::Rejected { service, tried: [instance], outcomes: [outcome] } => {
                write!(f, "a call to service {service:?} failed (tried {instance}): {outcome}")
            }
            Kind::Throttled(service) => {
                write!(
                    f,
                    "a call to service {service:?} was not sent: too few of the last ones were accepted"
                )
            }
            Kind::Nowhere(None, _) => f.write_str("a call was not sent: there is no balancer for it"),
            Kind::Nowhere(Some(zone), zones) => {
                write!(
                    f,
                    "a call was not sent: it must stay in zone {zone:?}, where nobody is in use; zones: "
                )?;
                f.write_str(&if zones.is_empty() { "none".to_owned() } else { zones.join(", ") })
            }
            Kind::Unsendable(service) => {
                write!(f, "a call to service {service:?} could not be made into a request")
            }
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Choose(error) => error.fmt(f),
            Kind::Refused(error) => error.fmt(f),
            Kind::Throttled(service) => f.debug_tuple("Throttled").field(service).finish(),
            Kind::Call { service, tried, outcomes, error } => f
                .debug_struct("Call")
                .field("service", service)
                .field("tried", tried)
                .field("outcomes", outcomes)
                .field("error", error)
                .finish(),
            Kind::Rejected { service, tried: [instance], outcomes: [outcome] } => {
                f.debug_tuple("Rejected").field(service).field(instance).field(outcome).finish()
            }
            Kind::Nowhere(zone, zones) => f.debug_tuple("Nowhere").field(zone).field(zones).finish(),
            Kind::Unsendable(service) => f.debug_tuple("Unsendable").field(service).finish(),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Kind::Choose(error) => error.source(),
            Kind::Call { error, .. } => error.as_ref().map(|error| error as _),
            Kind::Rejected { .. }
            | Kind::Unsendable(_)
            | Kind::Refused(_)
            | Kind::Throttled(_)
            | Kind::Nowhere(..) => None,
        }
    }
}
