use std::time::Duration;

use http::{Method, StatusCode};

use crate::config::parse_duration;
use crate::gateway::args::{Fault, Reader, flag};
use crate::gateway::definition::Step;

/// The filter `Retry`: a call is made again when it came to nothing.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::gateway) struct Retry {
    pub(in crate::gateway) retries: u32,
    statuses: Vec<u16>,
    /// The first digits of statuses.
    series: Vec<u16>,
    methods: Vec<Method>,
    backoff: Option<Backoff>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Backoff {
    first: Duration,
    most: Option<Duration>,
    factor: u32,
    /// Whether each pause is that many times the one before; else the first times a power.
    previous: bool,
}

/// Spring's.
const RETRIES: u32 = 3;

impl Retry {
    pub(super) fn read(step: &Step) -> Result<Self, Fault> {
        const NAMES: &[&str] = &[
            "retries",
            "statuses",
            "methods",
            "backoff.firstBackoff",
            "backoff.maxBackoff",
            "backoff.factor",
            "backoff.basedOnPreviousValue",
            "series",
            "exceptions",
        ];
        let args = Reader::new(step, NAMES, false)?;
        let retries = args.optional("retries")?.map_or(Ok(RETRIES), number)?;
        let statuses =
            args.list("statuses").into_iter().map(|word| status(word).map(|status| status.as_u16()));
        let methods = args.list("methods");
        let method = |word: &&str| {
            Method::from_bytes(word.to_ascii_uppercase().as_bytes())
                .map_err(|_| Fault::new(*word, "no method of HTTP", "methods such as GET, HEAD"))
        };
        let series = args.list("series");
        Ok(Self {
            retries,
            statuses: statuses.collect::<Result<_, _>>()?,
            series: if series.is_empty() {
                vec![5]
            } else {
                series.iter().map(|word| digit(word)).collect::<Result<_, _>>()?
            },
            methods: if methods.is_empty() {
                vec![Method::GET]
            } else {
                methods.iter().map(method).collect::<Result<_, _>>()?
            },
            backoff: backoff(&args)?,
        })
    }

    /// Whether a call of this method may be repeated.
    pub(in crate::gateway) fn is_for(&self, method: &Method) -> bool {
        self.retries > 0 && self.methods.contains(method)
    }

    /// Whether an answer is one to repeat the call for.
    pub(in crate::gateway) fn repeats(&self, status: StatusCode) -> bool {
        self.statuses.contains(&status.as_u16()) || self.series.contains(&(status.as_u16() / 100))
    }

    /// The pause before the repetition of this number, from 1.
    pub(in crate::gateway) fn pause(&self, repetition: u32) -> Duration {
        let Some(backoff) = self.backoff else { return Duration::ZERO };
        let power = if backoff.previous { repetition.saturating_sub(1) } else { repetition };
        let pause = backoff.first.saturating_mul(backoff.factor.saturating_pow(power));
        backoff.most.map_or(pause, |most| pause.min(most))
    }
}

fn backoff(args: &Reader<'_>) -> Result<Option<Backoff>, Fault> {
    let allowed = "a duration such as 10ms";
    let duration = |text: &str| parse_duration(text).ok_or_else(|| Fault::new(text, "no duration", allowed));
    let most = args.optional("backoff.maxBackoff")?.map(duration).transpose()?;
    let factor = args.optional("backoff.factor")?.map_or(Ok(2), number)?;
    let previous = args.optional("backoff.basedOnPreviousValue")?.map_or(Ok(true), flag)?;
    let first = args.optional("backoff.firstBackoff")?.map(duration).transpose()?;
    Ok(first.map(|first| Backoff { first, most, factor, previous }))
}

fn number(text: &str) -> Result<u32, Fault> {
    text.parse().map_err(|_| Fault::new(text, "no number", "a whole number, 0 or larger"))
}

fn digit(word: &str) -> Result<u16, Fault> {
    Ok(match word.to_ascii_uppercase().replace('-', "_").as_str() {
        "INFORMATIONAL" | "1" => 1,
        "SUCCESSFUL" | "2" => 2,
        "REDIRECTION" | "3" => 3,
        "CLIENT_ERROR" | "4" => 4,
        "SERVER_ERROR" | "5" => 5,
        _ => {
            return Err(Fault::new(
                word,
                "no series of statuses",
                "SERVER_ERROR, CLIENT_ERROR, REDIRECTION, SUCCESSFUL, INFORMATIONAL",
            ));
        }
    })
}

/// A status, by its number or its name (`BAD_GATEWAY`).
pub(super) fn status(word: &str) -> Result<StatusCode, Fault> {
    let named = || {
        let name = |status: StatusCode| {
            let reason =
                status.canonical_reason()?.to_ascii_uppercase().replace([' ', '-'], "_").replace('\'', "");
            (reason == word.to_ascii_uppercase()).then_some(status)
        };
        (100..600).filter_map(|code| StatusCode::from_u16(code).ok()).find_map(name)
    };
    let numbered = word.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok());
    numbered.filter(|status| status.as_u16() < 600).or_else(named).ok_or_else(|| {
        Fault::new(word, "no status of HTTP", "a number from 100 to 599, or a name such as BAD_GATEWAY")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Place;

    fn read(text: &str) -> Result<Retry, Fault> {
        Retry::read(&Step::short(text, "k".to_owned(), Place::Code))
    }

    #[test]
    fn a_retry_has_springs_defaults() {
        let retry = read("Retry").unwrap();
        assert_eq!(retry.retries, 3);
        assert!(retry.is_for(&Method::GET) && !retry.is_for(&Method::POST) && !retry.is_for(&Method::HEAD));
        assert!(retry.repeats(StatusCode::BAD_GATEWAY) && !retry.repeats(StatusCode::NOT_FOUND));
        assert_eq!(retry.pause(5), Duration::ZERO);
    }

    #[test]
    fn a_retry_has_its_arguments() {
        let retry = read("Retry=2, NOT_FOUND, POST, 10ms, 50ms, 3, false").unwrap();
        assert!(retry.is_for(&Method::POST) && !retry.is_for(&Method::GET));
        assert!(retry.repeats(StatusCode::NOT_FOUND) && !retry.repeats(StatusCode::GONE));
        assert_eq!([1, 2, 9].map(|at| retry.pause(at).as_millis()), [30, 50, 50]);
        for (text, value) in [
            ("Retry=x", "x"),
            ("Retry=1,600", "600"),
            ("Retry=1,NO_SUCH", "NO_SUCH"),
            ("Retry=1,500,GET,soon", "soon"),
        ] {
            assert_eq!(read(text).unwrap_err().value, value, "{text}");
        }
    }
}
