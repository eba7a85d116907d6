//! Pages for who is paged: what [`status`](crate::LoadBalancers::status), [`explain`](crate::LoadBalancers::explain) and
//! [`change_log`](crate::LoadBalancers::change_log) say, over HTTP and as JSON. A module and a feature for each server.

pub mod axum08;
mod query;
