//! How the text of a value is read into its field.

use super::balancer::{LoadBalancerProperties, trimmed};
use super::choices::{StageName, UnknownGroup};
use super::duration::{self, parse_duration};
use super::retry::RetryableError;
use super::stages::{MetadataRouteProperties, hash_source};
use std::time::Duration;

/// Why a value is refused: what would be allowed.
pub(crate) type Allowed = &'static str;

pub(crate) fn put<T>(field: &mut T, value: Result<T, Allowed>) -> Result<(), Allowed> {
    *field = value?;
    Ok(())
}

/// A yes or no, with Spring's words for both.
pub(crate) fn flag(text: &str) -> Result<bool, Allowed> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err("true or false (also on, off, yes, no, 1, 0)"),
    }
}

pub(crate) fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, Allowed> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()))
        .flatten()
        .ok_or("a whole number, 0 or larger, in digits")
}

pub(crate) fn port(text: &str) -> Result<u16, Allowed> {
    match whole(text) {
        Ok(port) if port != 0 => Ok(port),
        _ => Err("a port, 1 to 65535"),
    }
}

pub(crate) fn share(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(share) if share.is_finite() && share >= 1.0 => Ok(share),
        _ => Err("a number of at least 1, such as 1.5"),
    }
}

pub(crate) fn span(text: &str) -> Result<Duration, Allowed> {
    parse_duration(text).ok_or(duration::ALLOWED)
}

pub(crate) fn above_zero(text: &str) -> Result<Duration, Allowed> {
    match span(text)? {
        Duration::ZERO => Err("a duration above zero, such as 1s, 250ms or PT1S"),
        above => Ok(above),
    }
}

pub(crate) fn required(text: &str) -> Result<String, Allowed> {
    trimmed(text).ok_or("a text that is not blank")
}

pub(crate) fn header_name(text: &str) -> Result<String, Allowed> {
    let text = text.trim();
    match http::HeaderName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("the name of a header, such as X-SC-LB-Hint"),
    }
}

pub(crate) fn tls_name(text: &str) -> Result<String, Allowed> {
    host_name(text).ok_or("the name of a host as certificates have it, such as orders.example.com")
}

/// The name of a host in lower case; `None` for anything else, also for an address and a wildcard.
pub(crate) fn host_name(text: &str) -> Option<String> {
    let text = text.trim();
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let ends = label.starts_with('-') || label.ends_with('-');
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && !ends && label.bytes().all(letter)
    };
    // A name whose last part is a number is read as an address by whoever parses a URL.
    let last = name.rsplit('.').next().unwrap_or_default();
    let number =
        last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X");
    (name.len() <= 253 && name.split('.').all(label) && !number).then(|| name.to_ascii_lowercase())
}

pub(crate) fn stages(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| StageName::read(word).ok_or(StageName::ALLOWED);
    put(&mut to.configurations, words.iter().map(read).collect())
}

pub(crate) fn statuses(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| match whole::<u16>(word) {
        Ok(status @ 100..=999) => Ok(status),
        _ => Err("statuses of HTTP, such as 502, 503"),
    };
    put(&mut to.retry.retryable_status_codes, words.iter().map(read).collect())
}

pub(crate) fn retryable(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let mut kinds = Vec::new();
    for word in words {
        for kind in RetryableError::of_word(word).ok_or(RetryableError::ALLOWED)? {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
    }
    put(&mut to.retry.retryable_exceptions, Ok(kinds))
}

pub(crate) fn from_one(text: &str) -> Result<u32, Allowed> {
    match whole(text)? {
        0 => Err("a whole number, 1 or larger, in digits"),
        number => Ok(number),
    }
}

pub(crate) fn points(text: &str) -> Result<u32, Allowed> {
    match whole(text) {
        Ok(points @ 1..=8_388_608) => Ok(points),
        _ => Err("a whole number from 1 to 8388608, in digits"),
    }
}

pub(crate) fn entries(text: &str) -> Result<u32, Allowed> {
    match whole(text) {
        Ok(entries @ 2..=5_000_011) => Ok(entries),
        _ => Err("a whole number from 2 to 5000011, in digits; a prime, or the next one is taken"),
    }
}

pub(crate) fn part_percent(text: &str) -> Result<u32, Allowed> {
    percent(text).ok().filter(|percent| *percent > 0).ok_or("a percentage, a whole number from 1 to 100")
}

/// Tokens of gRPC's throttle, within its own limits.
pub(crate) fn tokens(text: &str) -> Result<u32, Allowed> {
    match whole(text) {
        Ok(tokens) if (1..=1_000).contains(&tokens) => Ok(tokens),
        _ => Err("a whole number from 1 to 1000"),
    }
}

pub(crate) fn token_ratio(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(ratio) if (0.001..=1_000.0).contains(&ratio) => Ok(ratio),
        _ => Err("a number from 0.001 to 1000, such as 0.1"),
    }
}

/// Calls that are sent for one that is accepted.
pub(crate) fn at_least_one(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 1.0 => Ok(value),
        _ => Err("a number, 1 or larger, such as 2"),
    }
}

pub(crate) fn a_second_or_more(text: &str) -> Result<Duration, Allowed> {
    match span(text) {
        Ok(span) if span >= Duration::from_secs(1) => Ok(span),
        _ => Err("a duration of 1 s or more, such as 2m"),
    }
}

pub(crate) fn aggression(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && (0.01..=100.0).contains(&value) => Ok(value),
        _ => Err("a number from 0.01 to 100, such as 1.5"),
    }
}

pub(crate) fn percent_of_mean(text: &str) -> Result<u32, Allowed> {
    let text = text.trim();
    match whole(text.strip_suffix('%').unwrap_or(text)) {
        Ok(percent) if percent >= 100 => Ok(percent),
        _ => Err("a whole number of percent of the mean, 100 or larger, such as 125"),
    }
}

pub(crate) fn arguments(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| whole(word).map_err(|_| "numbers of arguments, from 0, such as 0, 1");
    put(&mut to.hash.arguments, words.iter().map(read).collect())
}

/// The weights of zones, `<zone>=<weight>` each.
pub(crate) fn zone_weights(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    to.zone_preference.weights.clear();
    words.iter().try_for_each(|word| {
        let (zone, weight) = word.rsplit_once('=').ok_or(ZONES)?;
        read_zone_weight(to, zone, weight)
    })
}

/// What the weights of zones may be.
const ZONES: Allowed = "zones and a whole number from 0 each: a list such as eu-1a=3, eu-1b=1, or a map";

/// Reads the weight of one zone.
pub(crate) fn read_zone_weight(
    to: &mut LoadBalancerProperties,
    zone: &str,
    text: &str,
) -> Result<(), Allowed> {
    let zone = trimmed(zone).ok_or(ZONES)?.to_lowercase();
    to.zone_preference.weights.insert(zone, whole(text).map_err(|_| ZONES)?);
    Ok(())
}

pub(crate) fn percent<T: TryFrom<u64> + PartialOrd + From<u8>>(text: &str) -> Result<T, Allowed> {
    let text = text.trim();
    match whole(text.strip_suffix('%').unwrap_or(text).trim_end()) {
        Ok(percent) if percent <= T::from(100) => Ok(percent),
        _ => Err("a percentage, a whole number from 0 to 100"),
    }
}

pub(crate) fn factor(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 1 to 100, such as 1.4"),
    }
}

pub(crate) fn part(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("a number from 0 to 1, such as 0.5"),
    }
}

pub(crate) fn amount(text: &str) -> Result<f64, Allowed> {
    match text.trim().parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("a number, 0 or larger, such as 0.2"),
    }
}

pub(crate) fn metrics(to: &mut LoadBalancerProperties, words: &[&str]) -> Result<(), Allowed> {
    let read = |word: &&str| trimmed(word).ok_or("names of metrics that are not blank");
    put(&mut to.policy_options.metrics, words.iter().map(read).collect())
}

pub(crate) fn names_of_services(names: &[&str]) -> Result<(), Allowed> {
    if names.iter().all(|name| !super::key::fold(name.trim()).is_empty()) {
        Ok(())
    } else {
        Err("names of services that are not blank")
    }
}

/// Reads one value of a route.
pub(crate) fn read_route(to: &mut MetadataRouteProperties, name: &str, text: &str) -> Result<(), Allowed> {
    match name {
        "metadata" => put(&mut to.metadata, required(text)),
        "header" => put(&mut to.header, header_name(text).map(Some)),
        "cookie" => put(&mut to.cookie, required(text).map(Some)),
        "query" => put(&mut to.query, required(text).map(Some)),
        "unknown" => put(&mut to.unknown, UnknownGroup::read(text).ok_or(UnknownGroup::ALLOWED)),
        "hash" => match hash_source(text) {
            Some((word, name)) => put(&mut to.hash, Ok(Some(format!("{word}:{name}")))),
            None => Err("header:<name>, cookie:<name> or query:<name>"),
        },
        "percent" => comma_list(text).try_for_each(|share| {
            let (group, percent) = share.split_once('=').ok_or(SHARES)?;
            put_share(to, group, percent).map_err(|_| SHARES)
        }),
        _ if name.starts_with("percent.") => put_share(to, &name["percent.".len()..], text),
        _ => {
            to.fallback.extend(comma_list(text).map(str::to_owned));
            Ok(())
        }
    }
}

/// Reads one value of the map by media type.
pub(crate) fn read_media_type(to: &mut LoadBalancerProperties, of: &str, text: &str) -> Result<(), Allowed> {
    if of.is_empty() {
        return if text.trim().is_empty() {
            Ok(())
        } else {
            Err("a map from media types to names of parameters")
        };
    }
    let halves =
        of.split_once('/').filter(|(kind, sub)| !kind.is_empty() && !sub.is_empty() && !sub.contains('/'));
    if halves.is_none() || of.contains(|c: char| c.is_whitespace() || c == ';' || c == ',') {
        return Err("below a media type such as application/json, in brackets if it holds a dot");
    }
    let name = required(text)?;
    to.api_version.media_type_parameters.insert(of.to_owned(), name);
    Ok(())
}

/// What a list of shares may be.
const SHARES: Allowed =
    "a list such as canary=5, beta=0.5: values of the metadata key, and a percentage from 0 to 100 each";

fn put_share(to: &mut MetadataRouteProperties, group: &str, text: &str) -> Result<(), Allowed> {
    let text = text.trim();
    let group = trimmed(group).ok_or("a percentage for a value of the metadata key, which is not blank")?;
    match text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => {
            to.percent.insert(group, percent);
            Ok(())
        }
        _ => Err("a percentage from 0 to 100, such as 5 or 0.5"),
    }
}

/// The words of a comma list; blanks between commas are no words.
pub(crate) fn comma_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}
