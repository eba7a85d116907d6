//! Connections to an instance.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use tower_service::Service;

use super::BoxError;
use crate::ServiceId;

/// What makes connections for a [`HyperClient`](super::HyperClient): every connector of hyper-util's clients is one.
pub trait Connector:
    Service<
        Uri,
        Response: Read + Write + Connection + Send + Unpin + 'static,
        Error: Into<BoxError>,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<C> Connector for C where
    C: Service<
            Uri,
            Response: Read + Write + Connection + Send + Unpin + 'static,
            Error: Into<BoxError>,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// A connector whose connections, with all that belongs to them such as TLS, are made within a limit.
#[derive(Clone)]
pub(super) struct Bounded<C> {
    connector: C,
    limit: Option<Duration>,
    /// The service whose name a URI may hold in place of the instance, and where that is.
    stands_for: Option<(ServiceId, Authority)>,
}

impl<C> Bounded<C> {
    pub(super) fn new(connector: C, limit: Option<Duration>) -> Self {
        Self { connector, limit, stands_for: None }
    }

    /// It connects to `authority` for URIs that name `service`.
    pub(super) fn standing_for(mut self, service: &ServiceId, authority: Option<&Authority>) -> Self {
        self.stands_for = authority.map(|authority| (service.clone(), authority.clone()));
        self
    }

    fn dialled(&self, uri: Uri) -> Uri {
        let named = uri.host().map(|host| host.strip_suffix('.').unwrap_or(host));
        let Some((service, authority)) = &self.stands_for else { return uri };
        if !named.is_some_and(|host| host.eq_ignore_ascii_case(service.as_str())) {
            return uri;
        }
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(authority.clone());
        Uri::from_parts(parts).unwrap_or(uri)
    }
}

impl<C: Connector> Service<Uri> for Bounded<C> {
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let uri = self.dialled(uri);
        let (limit, connecting) = (self.limit, self.connector.call(uri));
        Box::pin(async move {
            let Some(limit) = limit else { return connecting.await.map_err(Into::into) };
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, Late(limit)).into()),
            }
        })
    }
}

#[derive(Debug)]
struct Late(Duration);

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection within connect-timeout ({:?})", self.0)
    }
}

impl std::error::Error for Late {}
