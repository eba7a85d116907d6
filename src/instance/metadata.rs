use std::fmt;
use std::sync::Arc;

/// The key and value texts that a registry keeps with an instance; sorted by key, cheap to clone.
///
/// ```
/// use evenkeel::Metadata;
///
/// let metadata: Metadata = [("zone", "eu-1a"), ("version", "2")].into_iter().collect();
/// assert_eq!(metadata.get("zone"), Some("eu-1a"));
/// assert_eq!(metadata.get("Zone"), None); // keys are compared as they are written
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Metadata(Option<Arc<[Entry]>>);

type Entry = (Arc<str>, Arc<str>);

impl Metadata {
    fn entries(&self) -> &[Entry] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let entries = self.entries();
        entries.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|at| &*entries[at].1)
    }

    /// Every key and value, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries().iter().map(|(k, v)| (&**k, &**v))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Metadata {
    /// Of two entries with one key the last counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut list: Vec<Entry> = entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // Stable, so that among equal keys the last given stands first after the reversal.
        list.reverse();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list.dedup_by(|later, kept| later.0 == kept.0);
        Self((!list.is_empty()).then(|| list.into()))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Metadata;

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let metadata: Metadata = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert!(Metadata::default().is_empty());
        assert_eq!(Metadata::default(), std::iter::empty::<(&str, &str)>().collect());
    }
}
