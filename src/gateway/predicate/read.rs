use http::{HeaderName, Method};
use regex::Regex;

use super::Predicate;
use super::address::Network;
use super::host::HostPattern;
use crate::gateway::args::{Fault, Reader, flag};
use crate::gateway::definition::{Args, Step};
use crate::gateway::pattern::{ALLOWED, PathPattern, reason};

/// What a step of a route's predicates is.
#[derive(Debug)]
pub(in crate::gateway) enum Read {
    Predicate(Predicate),
    /// A share of the traffic of a group.
    Weight {
        group: String,
        weight: u32,
    },
}

/// The predicates that there are.
const NAMES: &str = "Path, Method, Header, Host, Query, Cookie, RemoteAddr, Weight";

impl Read {
    /// Reads a predicate.
    pub(in crate::gateway) fn of(step: &Step) -> Result<Self, Fault> {
        Ok(Self::Predicate(match step.name.as_str() {
            "Path" => path(step)?,
            "Method" => {
                let args = Reader::new(step, &["methods"], true)?;
                let method = |word: &&str| {
                    let upper = word.to_ascii_uppercase();
                    Method::from_bytes(upper.as_bytes())
                        .map_err(|_| Fault::new(*word, "no method of HTTP", "methods such as GET, POST"))
                };
                Predicate::Method(args.some("methods")?.iter().map(method).collect::<Result<_, _>>()?)
            }
            "Header" => {
                let args = Reader::new(step, &["header", "regexp"], false)?;
                Predicate::Header(
                    header(args.one("header")?)?,
                    args.optional("regexp")?.map(whole).transpose()?,
                )
            }
            "Host" => {
                let args = Reader::new(step, &["patterns", "pattern"], true)?;
                let mut texts = args.list("patterns");
                texts.extend(args.list("pattern"));
                let allowed = "a host, with * within a label, ** for labels, {name}";
                let host =
                    |text: &&str| HostPattern::parse(text).map_err(|why| Fault::new(*text, why, allowed));
                let patterns: Vec<_> = texts.iter().map(host).collect::<Result<_, _>>()?;
                if patterns.is_empty() {
                    return Err(Fault::new("", "it needs at least one pattern", allowed));
                }
                Predicate::Host(patterns)
            }
            "Query" => {
                let args = Reader::new(step, &["param", "regexp"], false)?;
                Predicate::Query(
                    args.one("param")?.to_owned(),
                    args.optional("regexp")?.map(whole).transpose()?,
                )
            }
            "Cookie" => {
                let args = Reader::new(step, &["name", "regexp"], false)?;
                Predicate::Cookie(args.one("name")?.to_owned(), whole(args.one("regexp")?)?)
            }
            "RemoteAddr" => {
                let args = Reader::new(step, &["sources"], true)?;
                let network = |text: &&str| {
                    let allowed = "addresses and networks, such as 192.168.1.1/24";
                    Network::parse(text)
                        .ok_or_else(|| Fault::new(*text, "no address and no network", allowed))
                };
                Predicate::RemoteAddr(args.some("sources")?.iter().map(network).collect::<Result<_, _>>()?)
            }
            "Weight" => return weight(step),
            name => return Err(Fault::new(name, "unknown predicate", NAMES)),
        }))
    }
}

fn path(step: &Step) -> Result<Predicate, Fault> {
    let args = Reader::new(step, &["patterns", "pattern", "matchTrailingSlash"], true)?;
    let mut texts = args.list("patterns");
    texts.extend(args.list("pattern"));
    let mut optional_slash = args.optional("matchTrailingSlash")?.map_or(Ok(true), flag)?;
    // In the short notation the flag may stand behind the patterns.
    if let (Args::Short(_), Some(last @ ("true" | "false"))) = (&step.args, texts.last().copied()) {
        optional_slash = last == "true";
        texts.pop();
    }
    if texts.is_empty() {
        return Err(Fault::new("", "it needs at least one pattern", ALLOWED));
    }
    let pattern =
        |text: &&str| PathPattern::parse(text, optional_slash).map_err(|why| Fault::new(*text, why, ALLOWED));
    Ok(Predicate::Path(texts.iter().map(pattern).collect::<Result<_, _>>()?))
}

fn weight(step: &Step) -> Result<Read, Fault> {
    let args = Reader::new(step, &["group", "weight"], false)?;
    let text = args.one("weight")?;
    let weight = text.parse().map_err(|_| Fault::new(text, "no weight", "a whole number, 0 or larger"))?;
    Ok(Read::Weight { group: args.one("group")?.to_owned(), weight })
}

/// The name of a header.
pub(in crate::gateway) fn header(text: &str) -> Result<HeaderName, Fault> {
    HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| Fault::new(text, "no name of a header", "a name such as X-Request-Id"))
}

/// An expression that a whole text must fit, as Java's `matches` has it.
fn whole(text: &str) -> Result<Regex, Fault> {
    let allowed = "a regular expression, without look-around and back references";
    // By itself first: `a)(b` would be one within the group.
    Regex::new(text).map_err(|error| Fault::new(text, reason(&error), allowed))?;
    Regex::new(&format!("^(?:{text})$")).map_err(|error| Fault::new(text, reason(&error), allowed))
}
