use crate::ServiceInstance;

/// The instance that answered, in the extensions of a response; that of the last attempt, in an error of the reqwest client.
///
/// ```
/// use evenkeel::client::Via;
///
/// # fn example(response: http::Response<String>) {
/// if let Some(via) = response.extensions().get::<Via>() {
///     println!("{} after {} attempt(s)", via.instance(), via.attempts());
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Via {
    instance: ServiceInstance,
    attempts: u32,
}

impl Via {
    #[cfg_attr(not(any(feature = "reqwest", feature = "tower")), allow(dead_code))]
    pub(crate) fn new(instance: ServiceInstance, attempts: u32) -> Self {
        Self { instance, attempts }
    }

    /// The instance.
    pub fn instance(&self) -> &ServiceInstance {
        &self.instance
    }

    /// How many attempts were made, that of this instance included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}
