use std::fmt;
use std::sync::Arc;

use crate::{InvalidWeight, ServiceInstance, Weight};

/// A function that gives an instance its weight; `None` leaves it to the metadata.
pub type WeightFn = dyn Fn(&ServiceInstance) -> Option<Weight> + Send + Sync;

/// Where weights come from and whether policies honour them.
///
/// The weight of an instance is what the function says, else the one that was set, else the metadata entry `weight`, else one.
/// A text that is no weight counts as 1, with one warning per instance. **A weight of 0 drains an instance, also when
/// weights are off** (the default), unless [`zero_as_one`](Self::zero_as_one) is set, as Spring has it.
///
/// ```
/// use evenkeel::Weight;
/// use evenkeel::supplier::WeightsStage;
///
/// let by_cores = WeightsStage::on().with_function(|instance| instance.metadata().get("cores")?.parse().ok());
/// ```
#[derive(Clone)]
pub struct WeightsStage {
    on: bool,
    zero_as_one: bool,
    key: Arc<str>,
    function: Option<Arc<WeightFn>>,
}

impl Default for WeightsStage {
    fn default() -> Self {
        Self { on: false, zero_as_one: false, key: "weight".into(), function: None }
    }
}

impl WeightsStage {
    /// Policies honour weights.
    pub fn on() -> Self {
        Self { on: true, ..Self::default() }
    }

    /// Policies do not (the default); a weight of 0 still drains.
    pub fn off() -> Self {
        Self::default()
    }

    /// A weight of 0 counts as 1 and does not drain.
    #[must_use]
    pub fn zero_as_one(mut self, yes: bool) -> Self {
        self.zero_as_one = yes;
        self
    }

    /// The metadata entry that holds the weight (default `weight`).
    #[must_use]
    pub fn with_metadata_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = key.into();
        self
    }

    /// A function that comes first; one that panics counts as saying nothing.
    #[must_use]
    pub fn with_function(
        mut self,
        function: impl Fn(&ServiceInstance) -> Option<Weight> + Send + Sync + 'static,
    ) -> Self {
        self.function = Some(Arc::new(function));
        self
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// The weight, and what was wrong with the text of it.
    pub(crate) fn weigh(&self, instance: &ServiceInstance) -> (Weight, Option<InvalidWeight>) {
        let by_function = self.function.as_ref().and_then(|function| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(instance))).unwrap_or_default()
        });
        let (weight, wrong) = match by_function.or(instance.weight()) {
            Some(weight) => (weight, None),
            None => match instance.metadata().get(&self.key).map(str::parse::<Weight>) {
                None => (Weight::ONE, None),
                Some(Ok(weight)) => (weight, None),
                Some(Err(wrong)) => (Weight::ONE, Some(wrong)),
            },
        };
        (if weight.is_zero() && self.zero_as_one { Weight::ONE } else { weight }, wrong)
    }
}

impl fmt::Debug for WeightsStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightsStage")
            .field("on", &self.on)
            .field("zero_as_one", &self.zero_as_one)
            .field("key", &self.key)
            .field("function", &self.function.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(weight: &str) -> ServiceInstance {
        ServiceInstance::builder("h").with_metadata("weight", weight).build().unwrap()
    }

    #[test]
    fn function_then_set_then_metadata_then_one() {
        let two = Weight::new(2.0).unwrap();
        let set = instance("3").to_builder().weight(two).build().unwrap();
        let by = |stage: &WeightsStage, i: &ServiceInstance| stage.weigh(i).0.thousandths();
        let plain = WeightsStage::on();
        assert_eq!(by(&plain, &set), 2_000);
        assert_eq!(by(&plain, &instance("3")), 3_000);
        assert_eq!(by(&plain, &ServiceInstance::new("h", 1).unwrap()), 1_000);
        assert_eq!(by(&plain.clone().with_function(|_| Some(Weight::ZERO)), &set), 0);
        assert_eq!(by(&plain.clone().with_function(|_| None), &set), 2_000);
        assert_eq!(by(&plain.clone().with_function(|_| panic!("a function that fails")), &set), 2_000);
        assert_eq!(by(&plain.with_metadata_key("w"), &instance("3")), 1_000);
    }

    #[test]
    fn case_008_a_bad_text_is_one_and_said_so() {
        let (weight, wrong) = WeightsStage::off().weigh(&instance("abc"));
        assert_eq!(weight, Weight::ONE);
        assert!(wrong.unwrap().to_string().contains("\"abc\""));
        assert_eq!(WeightsStage::off().weigh(&instance("0")).0, Weight::ZERO);
        assert_eq!(WeightsStage::off().zero_as_one(true).weigh(&instance("0")).0, Weight::ONE);
    }
}
