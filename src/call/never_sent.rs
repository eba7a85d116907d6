use std::error::Error;
use std::fmt;

use crate::{
    Choice, ChooseError, Failure, LoadBalancer, Outcome, Request, ServiceId, ServiceInstance, Tried,
};

/// A response, with the lease under which it came.
#[derive(Debug)]
pub struct Answered<R> {
    /// The response.
    pub response: R,
    /// The lease: [`track`](Choice::track) or [`complete`](Choice::complete) it.
    pub choice: Choice,
    /// 1, or 2 when the first instance could not be reached.
    pub attempts: u32,
}

/// Sends a call to an instance; if it **was never sent** (`classify` says [`Failure::Connect`]), once to another one,
/// whatever its method. So does a call with a safe method (GET, HEAD, OPTIONS) whose connection broke
/// ([`Failure::Reset`]).
///
/// `classify` says what an error means; one that says nothing of the instance, since the call was not even tried, is
/// [`Outcome::Cancelled`]. `send` makes an attempt; it gives `None` when the call cannot be repeated. An instance that was not reached is skipped
/// with growing back-off, and a look-up starts behind the call. Any other failure is the caller's.
///
/// ```
/// use evenkeel::call::call;
/// use evenkeel::{Failure, LoadBalancer, Outcome, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [ServiceInstance::new("a.test", 80)?, ServiceInstance::new("b.test", 80)?])?;
/// let send = |choice: &evenkeel::Choice| {
///     let host = choice.instance().host().to_owned();
///     Some(async move {
///         // Where a real one would connect.
///         if host == "a.test" { Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) } else { Ok("hello") }
///     })
/// };
/// for _ in 0..10 {
///     let answer = call(&orders, &Request::EMPTY, |_| Outcome::Failure(Failure::Connect), send).await?;
///     assert_eq!(answer.response, "hello");
///     answer.choice.complete(Outcome::Success);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`CallError`], which names the instances that were tried.
pub async fn call<R, E, F, S>(
    balancer: &LoadBalancer,
    request: &Request<'_>,
    classify: impl Fn(&E) -> Outcome,
    mut send: S,
) -> Result<Answered<R>, CallError<E>>
where
    S: FnMut(&Choice) -> Option<F>,
    F: Future<Output = Result<R, E>>,
{
    let service = balancer.service_id();
    let mut tried = Tried::new();
    let mut names: Vec<ServiceInstance> = Vec::new();
    let mut last: Option<E> = None;
    for attempts in 1..=2 {
        let again = request.with_tried(&tried);
        let request = if attempts == 1 { request } else { &again };
        let choice = match (balancer.choose(request).await, last.take()) {
            (Ok(choice), None) => choice,
            // The only instance came back: it was just not reached.
            (Ok(choice), Some(error)) if tried.has(&choice) => {
                return Err(CallError::new(service, names, error));
            }
            (Ok(choice), Some(error)) => {
                last = Some(error);
                choice
            }
            (Err(error), None) => return Err(CallError(Box::new(Kind::Choose(error)))),
            // What happened to the call says more than that there is nobody else.
            (Err(_), Some(error)) => return Err(CallError::new(service, names, error)),
        };
        let Some(attempt) = send(&choice) else {
            return Err(match last {
                Some(error) => CallError::new(service, names, error),
                None => CallError(Box::new(Kind::Unsendable(service.clone()))),
            });
        };
        match attempt.await {
            Ok(response) => return Ok(Answered { response, choice, attempts }),
            Err(error) => {
                let outcome = classify(&error);
                names.push(choice.instance());
                let go_on = attempts == 1 && may_go_on(outcome, request);
                tried.add(&choice);
                choice.complete(outcome);
                if !go_on {
                    return Err(CallError::new(service, names, error));
                }
                tracing::debug!(%service, instance = %names[0], "a call could not be sent; it goes to another instance");
                last = Some(error);
            }
        }
    }
    unreachable!("the second attempt returns")
}

/// Whether nothing can have happened twice: the call was never sent, or it broke off and its method is safe.
fn may_go_on(outcome: Outcome, request: &Request<'_>) -> bool {
    match outcome {
        Outcome::Failure(Failure::Connect) => true,
        Outcome::Failure(Failure::Reset) => matches!(request.method(), Some("GET" | "HEAD" | "OPTIONS")),
        _ => false,
    }
}

/// Why a call came to nothing.
pub struct CallError<E>(Box<Kind<E>>);

enum Kind<E> {
    Choose(ChooseError),
    Call { service: ServiceId, tried: Vec<ServiceInstance>, error: E },
    Unsendable(ServiceId),
}

impl<E> CallError<E> {
    fn new(service: &ServiceId, tried: Vec<ServiceInstance>, error: E) -> Self {
        Self(Box::new(Kind::Call { service: service.clone(), tried, error }))
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
            Kind::Unsendable(_) => None,
        }
    }
}
