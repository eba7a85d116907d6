//! A gateway: HTTP in front, balanced services behind, and routes between them from configuration.

mod args;
mod definition;
mod filter;
mod pattern;
mod predicate;
mod route;
mod routes;
mod settings;
#[cfg(test)]
mod tests;
mod uri;

pub use definition::RouteDefinition;
pub use routes::Routes;
pub use settings::GatewaySettings;
