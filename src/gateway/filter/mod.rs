//! Filters: what a route changes of a request and of its answer.

mod path;
mod query;
mod read;
mod retry;
mod template;

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::pattern::Variable;
pub(super) use path::PathFilter;
pub(super) use read::ReadFilter;
pub(super) use retry::Retry;
use template::Template;

/// One filter, of those that change something.
#[derive(Debug)]
pub(super) enum Filter {
    Path(PathFilter),
    AddParameter(String, Template),
    RemoveParameter(String),
    Request(HeaderFilter),
    SetHost(Value),
    Response(HeaderFilter),
    SetStatus(StatusCode),
}

/// A change of headers.
#[derive(Debug)]
pub(super) enum HeaderFilter {
    Add(HeaderName, Value),
    Set(HeaderName, Value),
    Remove(HeaderName),
}

/// The value of a header: made once, unless it has variables.
#[derive(Debug)]
pub(super) enum Value {
    Fixed(HeaderValue),
    Of(Template),
}

/// The path and query of a request on its way, as they are to be sent.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Beginning with a slash.
    pub(super) path: String,
    /// Without the question mark.
    pub(super) query: Option<String>,
}

/// A value of the request that cannot stand where a filter puts it.
#[derive(Debug)]
pub(super) struct Unfit;

impl Draft {
    /// What is to be sent.
    pub(super) fn target(self) -> Result<Option<PathAndQuery>, Unfit> {
        let mut text = self.path;
        if let Some(query) = self.query {
            text.push('?');
            text.push_str(&query);
        }
        PathAndQuery::try_from(text).map(Some).map_err(|_| Unfit)
    }
}

impl Filter {
    /// Changes the request.
    pub(super) fn request(
        &self,
        draft: &mut Draft,
        headers: &mut HeaderMap,
        variables: &[Variable],
    ) -> Result<(), Unfit> {
        match self {
            Self::Path(filter) => draft.path = filter.apply(&draft.path, variables),
            Self::AddParameter(name, value) => query::add(&mut draft.query, name, &value.query(variables)),
            Self::RemoveParameter(name) => query::remove(&mut draft.query, name),
            Self::Request(filter) => filter.apply(headers, variables)?,
            Self::SetHost(value) => {
                headers.insert(HOST, value.of(variables)?);
            }
            Self::Response(_) | Self::SetStatus(_) => {}
        }
        Ok(())
    }

    /// Changes the answer.
    pub(super) fn response(
        &self,
        status: &mut StatusCode,
        headers: &mut HeaderMap,
        variables: &[Variable],
    ) -> Result<(), Unfit> {
        match self {
            Self::Response(filter) => filter.apply(headers, variables)?,
            Self::SetStatus(to) => *status = *to,
            _ => {}
        }
        Ok(())
    }

    /// Whether it needs the path and query one by one.
    pub(super) fn changes_target(&self) -> bool {
        matches!(self, Self::Path(_) | Self::AddParameter(..) | Self::RemoveParameter(_))
    }

    /// Whether it needs the values of variables.
    pub(super) fn has_variables(&self) -> bool {
        let of = |filter: &HeaderFilter| {
            matches!(filter, HeaderFilter::Add(_, Value::Of(_)) | HeaderFilter::Set(_, Value::Of(_)))
        };
        match self {
            Self::Path(PathFilter::Prefix(template) | PathFilter::Set(template))
            | Self::AddParameter(_, template) => template.fixed().is_none(),
            Self::Request(filter) | Self::Response(filter) => of(filter),
            Self::SetHost(value) => matches!(value, Value::Of(_)),
            Self::Path(_) | Self::RemoveParameter(_) | Self::SetStatus(_) => false,
        }
    }
}

impl HeaderFilter {
    fn apply(&self, headers: &mut HeaderMap, variables: &[Variable]) -> Result<(), Unfit> {
        match self {
            Self::Add(name, value) => {
                headers.append(name, value.of(variables)?);
            }
            Self::Set(name, value) => {
                headers.insert(name, value.of(variables)?);
            }
            Self::Remove(name) => {
                headers.remove(name);
            }
        }
        Ok(())
    }
}

impl Value {
    fn of(&self, variables: &[Variable]) -> Result<HeaderValue, Unfit> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::Of(template) => HeaderValue::from_str(&template.text(variables)).map_err(|_| Unfit),
        }
    }
}
