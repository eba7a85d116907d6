use std::borrow::Cow;

/// What a picker goes by, instance by instance: for reports ([`Picker::scores`](super::Picker::scores)).
///
/// ```
/// use evenkeel::policy::Scores;
///
/// let scores = Scores::new("calls in flight, the fewer the better", vec![Some(3.0), None]);
/// assert_eq!(scores.of(0), Some(3.0));
/// assert_eq!(scores.of(1), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    what: Cow<'static, str>,
    of: Vec<Option<f64>>,
}

impl Scores {
    /// What the scores are, in a few words that say which of two is better, and one for each instance, in the order of the
    /// set; `None` for one of which nothing is known.
    pub fn new(what: impl Into<Cow<'static, str>>, of: Vec<Option<f64>>) -> Self {
        Self { what: what.into(), of }
    }

    /// What they are.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The score of the instance at `index`.
    pub fn of(&self, index: usize) -> Option<f64> {
        self.of.get(index).copied().flatten().filter(|score| score.is_finite())
    }
}
