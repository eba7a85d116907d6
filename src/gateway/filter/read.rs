use http::{HeaderValue, StatusCode};
use regex::Regex;

use super::path::PathFilter;
use super::retry::{Retry, status};
use super::template::{Replacement, Template};
use super::{Filter, HeaderFilter, Value};
use crate::gateway::args::{Fault, Reader, flag};
use crate::gateway::definition::Step;
use crate::gateway::pattern::reason;
use crate::gateway::predicate::header;

/// What a step of a route's filters is.
#[derive(Debug)]
pub(in crate::gateway) enum ReadFilter {
    Filter(Filter),
    PreserveHost,
    Redirect { status: StatusCode, url: HeaderValue, with_query: bool },
    Retry(Retry),
}

/// The filters that there are.
const NAMES: &str = "StripPrefix, PrefixPath, RewritePath, SetPath, AddRequestHeader, SetRequestHeader, RemoveRequestHeader, \
                     AddRequestParameter, RemoveRequestParameter, SetRequestHostHeader, PreserveHostHeader, \
                     AddResponseHeader, SetResponseHeader, RemoveResponseHeader, SetStatus, RedirectTo, Retry";

impl ReadFilter {
    /// Reads a filter of a route whose patterns have these variables.
    pub(in crate::gateway) fn of(step: &Step, names: &[&str]) -> Result<Self, Fault> {
        let filter = match step.name.as_str() {
            "StripPrefix" => {
                let args = Reader::new(step, &["parts"], false)?;
                let parts = args.optional("parts")?.unwrap_or("1");
                let count =
                    parts.parse().map_err(|_| Fault::new(parts, "no number", "a number of segments"))?;
                Filter::Path(PathFilter::Strip(count))
            }
            "PrefixPath" => {
                let args = Reader::new(step, &["prefix"], false)?;
                Filter::Path(PathFilter::Prefix(path(args.one("prefix")?, names)?))
            }
            "SetPath" => {
                let args = Reader::new(step, &["template"], false)?;
                Filter::Path(PathFilter::Set(path(args.one("template")?, names)?))
            }
            "RewritePath" => {
                let args = Reader::new(step, &["regexp", "replacement"], false)?;
                let text = args.one("regexp")?;
                let allowed = "a regular expression, without look-around and back references";
                let regex = Regex::new(text).map_err(|error| Fault::new(text, reason(&error), allowed))?;
                let replacement = Replacement::parse(args.optional("replacement")?.unwrap_or(""), &regex)?;
                Filter::Path(PathFilter::Rewrite(regex, replacement))
            }
            "AddRequestParameter" => {
                let args = Reader::new(step, &["name", "value"], false)?;
                let value = args.one("value")?;
                Filter::AddParameter(
                    word(args.one("name")?)?.to_owned(),
                    Template::parse(word(value)?, names)?,
                )
            }
            "RemoveRequestParameter" => {
                let args = Reader::new(step, &["name"], false)?;
                Filter::RemoveParameter(args.one("name")?.to_owned())
            }
            "SetRequestHostHeader" => {
                let args = Reader::new(step, &["host"], false)?;
                Filter::SetHost(value(args.one("host")?, names)?)
            }
            "SetStatus" => {
                let args = Reader::new(step, &["status"], false)?;
                Filter::SetStatus(status(args.one("status")?)?)
            }
            "PreserveHostHeader" => {
                Reader::new(step, &[], false)?;
                return Ok(Self::PreserveHost);
            }
            "RedirectTo" => return redirect(step),
            "Retry" => return Retry::read(step).map(Self::Retry),
            name => match headers(step, names) {
                Some(filter) => filter?,
                None => return Err(Fault::new(name, "unknown filter", NAMES)),
            },
        };
        Ok(Self::Filter(filter))
    }
}

/// The filters of headers: `Add`, `Set` or `Remove`, of a request or a response.
fn headers(step: &Step, names: &[&str]) -> Option<Result<Filter, Fault>> {
    let (side, does): (fn(HeaderFilter) -> Filter, _) = match step.name.strip_suffix("Header")? {
        name if name.ends_with("Request") => (Filter::Request, name.strip_suffix("Request")?),
        name => (Filter::Response, name.strip_suffix("Response")?),
    };
    let read = || {
        if does == "Remove" {
            let args = Reader::new(step, &["name"], false)?;
            return Ok(side(HeaderFilter::Remove(header(args.one("name")?)?)));
        }
        let args = Reader::new(step, &["name", "value"], false)?;
        let name = header(args.one("name")?)?;
        let value = value(args.one("value")?, names)?;
        Ok(side(if does == "Add" { HeaderFilter::Add(name, value) } else { HeaderFilter::Set(name, value) }))
    };
    matches!(does, "Add" | "Set" | "Remove").then(read)
}

/// The value of a header, which no message repeats: it may be a secret.
fn value(text: &str, names: &[&str]) -> Result<Value, Fault> {
    let template = Template::parse(text, names)?;
    match template.fixed() {
        Some(text) => HeaderValue::from_str(text)
            .map(Value::Fixed)
            .map_err(|_| Fault::new("", "a value that no header can have", "visible characters and blanks")),
        None => Ok(Value::Of(template)),
    }
}

/// A path with variables.
fn path(text: &str, names: &[&str]) -> Result<Template, Fault> {
    let path =
        |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '"' | '<' | '>' | '\\' | '^' | '`' | '|');
    if !text.starts_with(['/', '{']) || !text.chars().all(path) {
        return Err(Fault::new(text, "no path", "a path such as /api/{name}, its escapes written out"));
    }
    Template::parse(text, names)
}

/// Text that can stand in a query.
fn word(text: &str) -> Result<&str, Fault> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | '&' | '=' | '"' | '<' | '>');
    if text.chars().all(fits) {
        return Ok(text);
    }
    Err(Fault::new(text, "it cannot stand in a query", "characters of a query, others as %xx"))
}

fn redirect(step: &Step) -> Result<ReadFilter, Fault> {
    let args = Reader::new(step, &["status", "url", "includeRequestParams"], false)?;
    let text = args.one("status")?;
    let status = status(text)?;
    if !status.is_redirection() {
        return Err(Fault::new(text, "no status of a redirection", "301, 302, 303, 307, 308"));
    }
    let text = args.one("url")?;
    let url = HeaderValue::from_str(text)
        .map_err(|_| Fault::new(text, "no URL", "a URL, its escapes written out"))?;
    let with_query = args.optional("includeRequestParams")?.map_or(Ok(false), flag)?;
    Ok(ReadFilter::Redirect { status, url, with_query })
}
