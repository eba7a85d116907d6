use std::error::Error;
use std::fmt;

/// Why a simulation does not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimError {
    /// A parameter has no meaning.
    Invalid {
        /// Which one.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        must: String,
    },
    /// The balancer of a client cannot be built.
    Balancer {
        /// The number of the client.
        client: usize,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The balancer of a client has no list to choose from.
    NotReady {
        /// The number of the client.
        client: usize,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A balancer chose an instance that is none of the simulated servers.
    Stranger {
        /// The id of the instance.
        instance: String,
    },
    /// There is no thread or no runtime to run on.
    Runtime(std::io::Error),
}

impl SimError {
    pub(super) fn invalid(what: &'static str, value: impl fmt::Display, must: impl Into<String>) -> Self {
        Self::Invalid { what, value: value.to_string(), must: must.into() }
    }

    /// Above 0, and finite.
    pub(super) fn positive(what: &'static str, value: f64) -> Result<(), Self> {
        let good = value > 0.0 && value.is_finite();
        if good { Ok(()) } else { Err(Self::invalid(what, value, "must be above 0 and finite")) }
    }

    /// From `least` to `most`.
    pub(super) fn within(what: &'static str, value: f64, least: f64, most: f64) -> Result<(), Self> {
        // The least number above 0 stands for "above 0".
        let least_told = if least > 0.0 && least <= f64::MIN_POSITIVE {
            "above 0".to_owned()
        } else {
            format!("from {least}")
        };
        let good = value >= least && value <= most;
        if good { Ok(()) } else { Err(Self::invalid(what, value, format!("must be {least_told} to {most}"))) }
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { what, value, must } => write!(f, "simulation: {what} is {value}; it {must}"),
            Self::Balancer { client, source } => {
                write!(f, "simulation: the balancer of client {client} cannot be built: {source}")
            }
            Self::NotReady { client, source } => {
                write!(f, "simulation: the balancer of client {client} has no list: {source}")
            }
            Self::Stranger { instance } => {
                write!(f, "simulation: {instance} was chosen, which is none of the simulated servers")
            }
            Self::Runtime(error) => write!(f, "simulation: no runtime: {error}"),
        }
    }
}

impl Error for SimError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Balancer { source, .. } | Self::NotReady { source, .. } => Some(&**source),
            Self::Runtime(error) => Some(error),
            Self::Invalid { .. } | Self::Stranger { .. } => None,
        }
    }
}
