use std::fmt;
use std::str::FromStr;

/// What a registry says of an instance.
///
/// [`Up`](Self::Up) and [`Unknown`](Self::Unknown) instances are used; [`Degraded`](Self::Degraded) ones if neither is
/// left; [`Draining`](Self::Draining) ones if nothing else is; [`Down`](Self::Down) ones never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The instance takes traffic.
    Up,
    /// It works, but worse than the others; it is used when no better one is left.
    Degraded,
    /// It is about to leave; it is used when nothing else is left.
    Draining,
    /// It must not be called.
    Down,
    /// The registry says nothing (the default); used like [`Status::Up`].
    #[default]
    Unknown,
}

impl Status {
    /// The word that is written in files, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
            Self::Down => "down",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = InvalidStatus;

    /// Case does not count; the words of Eureka (`OUT_OF_SERVICE`, `STARTING`) and Consul (`passing`, `warning`,
    /// `critical`) are known too.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "up" | "passing" => Self::Up,
            "degraded" | "warning" => Self::Degraded,
            "draining" | "terminating" => Self::Draining,
            "down" | "critical" | "out_of_service" | "starting" => Self::Down,
            "unknown" | "" => Self::Unknown,
            _ => return Err(InvalidStatus { given: text.to_owned() }),
        })
    }
}

/// A text that is no status; it quotes what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidStatus {
    given: String,
}

impl fmt::Display for InvalidStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no status: up, degraded, draining, down or unknown is expected", self.given)
    }
}

impl std::error::Error for InvalidStatus {}
