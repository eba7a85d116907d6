//! The pages as a router of axum 0.8.
//!
//! | path | what |
//! |---|---|
//! | `/` | the services, and how each is in a word |
//! | `/{service}` | [`ServiceStatus`](crate::observe::ServiceStatus); `?offset=` and `?limit=` |
//! | `/{service}/explain` | [`Explanation`](crate::observe::Explanation) of `?method=`, `?path=`, `?hint=`, `?header=name:value`, `?attribute=name=value`; `?picks=` |
//! | `/{service}/changes` | the last [`Change`]s |
//!
//! All of it is read-only: no page changes a balancer, makes one, or counts as its use. No page shows headers, cookies or
//! secrets, nor metadata but for weights and the values that make groups; addresses in errors are shown without their passwords. Still, it tells who runs where: serve it on a port for
//! operators, not for everybody.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use serde::Serialize;

use super::query::Asked;
use crate::observe::{Change, millis};
use crate::{LoadBalancers, Request, UnknownService};

/// The pages of `balancers`, to be nested where operators look.
///
/// ```no_run
/// use evenkeel::LoadBalancers;
/// use evenkeel::debug::axum08::debug_router;
/// use evenkeel::discovery::SimpleDiscovery;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let balancers = LoadBalancers::builder(SimpleDiscovery::new()).build()?;
/// let router = axum::Router::new().nest("/balancers", debug_router(&balancers));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9901").await?;
/// axum::serve(listener, router).await?;
/// # Ok(()) }
/// ```
pub fn debug_router(balancers: &LoadBalancers) -> Router {
    Router::new()
        .route("/", get(services))
        .route("/{service}", get(status))
        .route("/{service}/explain", get(explain))
        .route("/{service}/changes", get(changes))
        .with_state(balancers.clone())
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Services {
    services: Vec<Line>,
    /// Named by the code or the properties; nobody has called them.
    never_called: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    service: String,
    version: Option<u64>,
    age_ms: Option<u64>,
    known: usize,
    spread: usize,
    in_flight: u32,
    closed: bool,
    source_failures: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Changes {
    service: String,
    changes: Vec<Change>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Fault {
    error: String,
}

async fn services(State(balancers): State<LoadBalancers>) -> Response<Body> {
    let mut services: Vec<Line> = balancers
        .balancers()
        .map(|balancer| {
            let snapshot = balancer.snapshot();
            Line {
                service: balancer.service_id().to_string(),
                version: snapshot.as_ref().map(|snapshot| snapshot.version()),
                age_ms: snapshot.as_ref().map(|snapshot| millis(snapshot.age())),
                known: snapshot.as_ref().map_or(0, |snapshot| snapshot.known()),
                spread: snapshot.as_ref().map_or(0, |snapshot| snapshot.len()),
                in_flight: balancer.in_flight(),
                closed: balancer.is_closed(),
                source_failures: balancer.source_health().failures,
            }
        })
        .collect();
    services.sort_by(|a, b| a.service.cmp(&b.service));
    let never_called = balancers.configured_services().iter().map(ToString::to_string).collect();
    json(StatusCode::OK, &Services { services, never_called })
}

async fn status(
    State(balancers): State<LoadBalancers>,
    Path(service): Path<String>,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    match Asked::read(&query.unwrap_or_default()) {
        Ok(asked) => answer(balancers.status_page(&service, asked.page)),
        Err(error) => json(StatusCode::BAD_REQUEST, &Fault { error }),
    }
}

async fn explain(
    State(balancers): State<LoadBalancers>,
    Path(service): Path<String>,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let asked = match Asked::read(&query.unwrap_or_default()) {
        Ok(asked) => asked,
        Err(error) => return json(StatusCode::BAD_REQUEST, &Fault { error }),
    };
    let request = Request::of(&asked.request);
    let request = match &asked.request.hint {
        Some(hint) => request.with_hint(hint),
        None => request,
    };
    answer(balancers.explain_with(&service, &request, asked.options))
}

async fn changes(State(balancers): State<LoadBalancers>, Path(service): Path<String>) -> Response<Body> {
    answer(balancers.change_log(&service).map(|changes| Changes { service, changes }))
}

fn answer(page: Result<impl Serialize, UnknownService>) -> Response<Body> {
    match page {
        Ok(page) => json(StatusCode::OK, &page),
        Err(error) => json(StatusCode::NOT_FOUND, &Fault { error: error.to_string() }),
    }
}

fn json(status: StatusCode, page: &impl Serialize) -> Response<Body> {
    let (status, text) = match serde_json::to_vec(page) {
        Ok(text) => (status, text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, br#"{"error":"the page cannot be written"}"#.to_vec()),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
