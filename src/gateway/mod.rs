//! A gateway: HTTP in front, balanced services behind, and routes between them from configuration.
//!
//! [`Routes`] are read from `evenkeel.gateway.routes`, or from those of a Spring application as they are; what is wrong in them
//! is an error that names route, key and value. A [`Gateway`] serves them by itself, or as a service of tower. The guide's
//! [page](crate::guide::gateway) has every predicate, filter and setting, and what is decided otherwise than in Spring.
//!
//! ```
//! use evenkeel::gateway::{Gateway, RouteDefinition, Routes};
//! use evenkeel::{LoadBalancers, ServiceInstance};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let balancers = LoadBalancers::fixed([("orders", vec![ServiceInstance::new("10.0.0.1", 8080)?])])?;
//! let orders = RouteDefinition::new("orders", "lb://orders")
//!     .with_predicate("Path=/api/orders/**")
//!     .with_filter("StripPrefix=1");
//! let gateway = Gateway::builder(balancers).routes(Routes::new([orders])?).build();
//! let handle = gateway.serve(tokio::net::TcpListener::bind("127.0.0.1:0").await?)?;
//! println!("http://{}/api/orders/42", handle.address());
//! assert!(handle.shutdown(Duration::from_secs(5)).await.is_complete());
//! # Ok(()) }
//! ```

mod args;
mod definition;
mod filter;
#[allow(clippy::module_inception)]
mod gateway;
mod pattern;
mod predicate;
mod proxy;
mod route;
mod routes;
mod serve;
mod settings;
#[cfg(test)]
mod tests;
mod uri;

pub use definition::RouteDefinition;
pub use gateway::{Gateway, GatewayBuilder, GatewayService, PeerAddress, PeerScheme};
pub use proxy::GatewayBody;
pub use routes::Routes;
pub use serve::{Drained, GatewayHandle};
pub use settings::GatewaySettings;
