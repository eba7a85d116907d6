//! A gateway: HTTP in front, balanced services behind, and routes between them from configuration.

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
pub use gateway::{Gateway, GatewayBuilder, GatewayService, PeerAddress};
pub use proxy::GatewayBody;
pub use routes::Routes;
pub use serve::{Drained, GatewayHandle};
pub use settings::GatewaySettings;
