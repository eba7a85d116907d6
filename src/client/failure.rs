//! What an error of a client over hyper says of the instance.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use crate::Failure;

/// The failure that an error or one of its causes names, the outermost first; `None` if nothing in the chain says anything.
///
/// Not connected (refused, no route, unknown name, TLS handshake, connect time-out) is [`Failure::Connect`]: nothing of the
/// request was sent.
pub(crate) fn failure_in(error: Option<&(dyn Error + 'static)>) -> Option<Failure> {
    let mut cause = error;
    let mut on_the_wire = false;
    while let Some(error) = cause {
        if let Some(failure) = failure_at(error) {
            return Some(failure);
        }
        on_the_wire |= error.is::<legacy::Error>() || error.is::<hyper::Error>();
        cause = error.source();
    }
    on_the_wire.then_some(Failure::Reset)
}

/// Whether the request itself is at fault, such as its body: the instance has no part in it.
#[cfg(feature = "tower")]
pub(crate) fn is_of_the_request(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref().is_some_and(hyper::Error::is_user) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What one link of the chain says.
fn failure_at(error: &(dyn Error + 'static)) -> Option<Failure> {
    #[cfg(feature = "tower")]
    if let Some(error) = error.downcast_ref::<super::tower::Error>() {
        return Some(error.failure().unwrap_or(Failure::Other));
    }
    if let Some(error) = error.downcast_ref::<legacy::Error>() {
        return error.is_connect().then_some(Failure::Connect);
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        // What a body says of its own source says nothing of the instance.
        let of_the_body = error.is_user().then_some(Failure::Other);
        return if error.is_timeout() { Some(Failure::Timeout) } else { of_the_body };
    }
    #[cfg(feature = "tower")]
    if error.is::<::tower::timeout::error::Elapsed>() {
        return Some(Failure::Timeout);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(Failure::Timeout);
    }
    let error = error.downcast_ref::<io::Error>()?;
    // One that travels as an error of the system's.
    let inner = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
    if let Some(failure) = failure_in(inner) {
        return Some(failure);
    }
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Connect,
        io::ErrorKind::TimedOut => Failure::Timeout,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Failure::Reset,
        _ => Failure::Other,
    })
}
