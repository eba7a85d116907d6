use super::SimError;

/// A server: where it stands, and what it can do.
///
/// Defaults: no zone, weight 1, speed 1, an allocation of one core.
///
/// ```
/// use evenkeel::sim::Server;
///
/// let slow = Server::new().with_zone("eu-1a").with_weight(0.5).with_speed(0.5);
/// let fleet: Vec<Server> = Server::many(9).chain([slow]).collect();
/// assert_eq!(fleet.len(), 10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub(super) zone: Option<String>,
    pub(super) weight: Option<f64>,
    pub(super) speed: f64,
    pub(super) allocation: f64,
}

impl Default for Server {
    fn default() -> Self {
        Self { zone: None, weight: None, speed: 1.0, allocation: 1.0 }
    }
}

impl Server {
    /// A server with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many with the defaults.
    pub fn many(n: usize) -> impl Iterator<Item = Self> {
        std::iter::repeat_n(Self::default(), n)
    }

    /// So many, in the zones in turn.
    ///
    /// ```
    /// use evenkeel::sim::Server;
    ///
    /// let fleet: Vec<Server> = Server::in_zones(100, ["eu-1a", "eu-1b", "eu-1c"]).collect();
    /// ```
    pub fn in_zones<const N: usize>(n: usize, zones: [&str; N]) -> impl Iterator<Item = Self> {
        (0..n).map(move |at| match zones.get(at % N.max(1)) {
            Some(zone) => Self::new().with_zone(*zone),
            None => Self::new(),
        })
    }

    /// Its zone.
    #[must_use]
    pub fn with_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Its weight, as metadata; the default chain honours weights if any server has one.
    #[must_use]
    pub fn with_weight(mut self, weight: f64) -> Self {
        self.weight = Some(weight);
        self
    }

    /// How fast each of its cores is (default 1): at 0.5, work takes twice as long.
    #[must_use]
    pub fn with_speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// How many cores are its own (default 1). One request uses one core at most.
    #[must_use]
    pub fn with_allocation(mut self, cores: f64) -> Self {
        self.allocation = cores;
        self
    }

    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::within("speed of a server", self.speed, 1e-6, 1e6)?;
        SimError::within("allocation of a server", self.allocation, 1e-6, 1e6)?;
        self.weight.map_or(Ok(()), |weight| SimError::within("weight of a server", weight, 0.0, 1e6))
    }
}
