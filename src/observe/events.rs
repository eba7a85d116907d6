use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;

use crate::instance::UrlParts;
use crate::{Outcome, Request, ServiceId, ServiceInstance};

/// What is known of a call from its start to its end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallInfo {
    /// A number that no other call of this process has, by which its events are put together.
    pub id: u64,
    /// The service that is called.
    pub service: ServiceId,
    /// The method of the request.
    pub method: Option<String>,
    /// The URL of the request, as the caller wrote it: with the name of the service.
    pub url: Option<String>,
    /// The template of its path (`/orders/{id}`), if the client keeps one: the attribute
    /// [`URL_TEMPLATE`](CallInfo::URL_TEMPLATE).
    pub template: Option<String>,
    /// The hint of the request, else the one that is configured for the service.
    pub hint: Option<String>,
}

impl CallInfo {
    /// The attribute of a request that holds the template of its path; OpenTelemetry's name for it.
    pub const URL_TEMPLATE: &'static str = "url.template";

    /// What `request` says; `hint` is the one configured for the service.
    pub(crate) fn of(service: &ServiceId, request: &Request<'_>, hint: Option<&str>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            service: service.clone(),
            method: request.method().map(str::to_owned),
            url: request.url().map(std::borrow::Cow::into_owned),
            template: request.attribute(Self::URL_TEMPLATE).map(str::to_owned),
            hint: request.hint().or(hint).map(str::to_owned),
        }
    }

    /// The path of the URL, without query and fragment.
    ///
    /// ```
    /// # use evenkeel::observe::CallInfo;
    /// # fn of(call: &CallInfo) {
    /// // The path of "lb://orders/api/42?full=true" is "/api/42".
    /// let path: Option<&str> = call.path();
    /// # }
    /// ```
    pub fn path(&self) -> Option<&str> {
        let parts = UrlParts::of(self.url.as_deref()?);
        let path = parts.rest.split(['?', '#']).next().unwrap_or_default();
        Some(if path.is_empty() { "/" } else { path })
    }
}

/// A call begins: nothing is chosen yet.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallStart<'a> {
    /// The call.
    pub call: &'a CallInfo,
    /// Its request, with headers, cookies and attributes.
    pub request: &'a Request<'a>,
}

/// An instance is chosen, and the request is about to be sent to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttemptStart<'a> {
    /// The call.
    pub call: &'a CallInfo,
    /// Its request, with headers, cookies and attributes.
    pub request: &'a Request<'a>,
    /// The instance.
    pub instance: &'a ServiceInstance,
    /// Counts the attempts of the call, from 1.
    pub attempt: u32,
}

/// An attempt ended: exactly one for each lease.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttemptEnd<'a> {
    /// The service.
    pub service: &'a ServiceId,
    /// The call that it belongs to; `None` for a lease that was chosen by hand.
    pub call: Option<&'a CallInfo>,
    /// The instance.
    pub instance: &'a ServiceInstance,
    /// Counts the attempts of the call, from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// From the choice to the end of the lease, which is that of the response's body.
    pub elapsed: Duration,
}

/// How a call ended. Any response is a success, whatever its status: that is what `response` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompletionStatus {
    /// A response came.
    Success,
    /// No response came, or it broke off.
    Failed,
    /// There was no instance: nothing was sent. It does not count in statistics of instances.
    Discard,
    /// The caller gave up before there was a response.
    Cancelled,
}

impl CompletionStatus {
    /// Its name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Discard => "discard",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseData {
    /// The status of HTTP; `None` for another protocol.
    pub status: Option<u16>,
    /// The headers, if the client tells them.
    pub headers: HeaderMap,
}

/// A call ended: exactly one for each [`CallStart`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Completion<'a> {
    /// The call.
    pub call: &'a CallInfo,
    /// How it ended.
    pub status: CompletionStatus,
    /// The instance of the last attempt; `None` if there was none.
    pub instance: Option<&'a ServiceInstance>,
    /// The response, if there was one.
    pub response: Option<&'a ResponseData>,
    /// How the last attempt ended; `None` if there was none.
    pub outcome: Option<Outcome>,
    /// The error that the caller gets.
    pub error: Option<&'a dyn fmt::Display>,
    /// How many attempts were made.
    pub attempts: u32,
    /// From the start of the call, the wait for a list and pauses included.
    pub elapsed: Duration,
}

impl fmt::Debug for Completion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("call", self.call)
            .field("status", &self.status)
            .field("instance", &self.instance.map(ToString::to_string))
            .field("response", &self.response)
            .field("outcome", &self.outcome)
            .field("error", &self.error.map(ToString::to_string))
            .field("attempts", &self.attempts)
            .field("elapsed", &self.elapsed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url_has_neither_host_nor_query() {
        for (url, path) in [
            ("lb://orders/api/42?full=true#top", "/api/42"),
            ("lb://orders", "/"),
            ("lb://orders?x=/a", "/"),
            ("/api/42?x", "/api/42"),
            ("/login?next=http://other/x", "/login"),
            ("/go/http://other/x", "/go/http://other/x"),
            ("//orders/a", "/a"),
            ("", "/"),
        ] {
            let mut call = CallInfo::of(&ServiceId::new("s").unwrap(), &Request::EMPTY, None);
            assert_eq!(call.path(), None);
            call.url = Some(url.to_owned());
            assert_eq!(call.path(), Some(path), "{url}");
        }
    }
}
