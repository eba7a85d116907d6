use std::error::Error;
use std::fmt;

use crate::{BuildError, ChooseError, ServiceId, ServiceInstance};

/// Why a call came to nothing.
pub struct CallError<E>(Box<Kind<E>>);

enum Kind<E> {
    Choose(ChooseError),
    Call { service: ServiceId, tried: Vec<ServiceInstance>, error: E },
    Unsendable(ServiceId),
    Refused(BuildError),
}

impl<E> CallError<E> {
    pub(super) fn call(service: &ServiceId, tried: Vec<ServiceInstance>, error: E) -> Self {
        Self(Box::new(Kind::Call { service: service.clone(), tried, error }))
    }

    pub(super) fn choose(error: ChooseError) -> Self {
        Self(Box::new(Kind::Choose(error)))
    }

    pub(super) fn unsendable(service: &ServiceId) -> Self {
        Self(Box::new(Kind::Unsendable(service.clone())))
    }

    /// The service has no balancer.
    pub(crate) fn refused(error: BuildError) -> Self {
        Self(Box::new(Kind::Refused(error)))
    }

    /// The instances that were tried, in order; none if there was nothing to choose.
    pub fn tried(&self) -> &[ServiceInstance] {
        match &*self.0 {
            Kind::Call { tried, .. } => tried,
            _ => &[],
        }
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
            Kind::Call { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The error of the last attempt.
    pub fn into_call_error(self) -> Option<E> {
        match *self.0 {
            Kind::Call { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Choose(error) => error.fmt(f),
            Kind::Refused(error) => error.fmt(f),
            Kind::Call { service, tried, error } => {
                write!(f, "a call to service {service:?} failed (tried ")?;
                for (at, instance) in tried.iter().enumerate() {
                    write!(f, "{}{instance}", if at == 0 { "" } else { ", then " })?;
                }
                write!(f, "): {error}")
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
            Kind::Call { service, tried, error } => f
                .debug_struct("Call")
                .field("service", service)
                .field("tried", tried)
                .field("error", error)
                .finish(),
            Kind::Unsendable(service) => f.debug_tuple("Unsendable").field(service).finish(),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Kind::Choose(error) => error.source(),
            Kind::Call { error, .. } => Some(error),
            Kind::Unsendable(_) | Kind::Refused(_) => None,
        }
    }
}
