use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::bytes::same;

/// The key and value texts that a registry keeps with an instance; sorted by key, cheap to clone.
///
/// ```
/// use evenkeel::Metadata;
///
/// let metadata: Metadata = [("zone", "eu-1a"), ("version", "2")].into_iter().collect();
/// assert_eq!(metadata.get("zone"), Some("eu-1a"));
/// assert_eq!(metadata.get("Zone"), None); // keys are compared as they are written
/// ```
#[derive(Clone, Default)]
pub struct Metadata(Option<Arc<[Entry]>>);

type Entry = (Arc<str>, Arc<str>);

/// Up to so many entries are looked through one by one.
const FEW: usize = 16;

impl Metadata {
    fn entries(&self) -> &[Entry] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let entries = self.entries();
        let found = if entries.len() <= FEW {
            // Keys of another length are passed over without a look at their text, which lies elsewhere in memory.
            entries.iter().find(|(own, _)| same(own.as_bytes(), key.as_bytes()))
        } else {
            entries.binary_search_by(|(own, _)| (**own).cmp(key)).ok().map(|at| &entries[at])
        };
        found.map(|(_, value)| &**value)
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

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.entries(), other.entries());
        std::ptr::eq(a, b)
            || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(&a.0, &b.0) && equal(&a.1, &b.1))
    }
}

impl Eq for Metadata {}

impl Hash for Metadata {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries().hash(state);
    }
}

fn equal(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || same(a.as_bytes(), b.as_bytes())
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
    fn a_key_is_found_among_few_and_among_many() {
        for n in [0, 1, 3, 16, 17, 100] {
            let metadata: Metadata = (0..n).map(|at| (format!("k{at}"), at.to_string())).collect();
            for at in 0..n {
                assert_eq!(metadata.get(&format!("k{at}")), Some(&*at.to_string()));
            }
            for stranger in ["", "k", "K0", "k00", "k1000", "l0"] {
                assert_eq!(metadata.get(stranger), None, "{stranger:?} among {n}");
            }
        }
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let metadata: Metadata = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert!(Metadata::default().is_empty());
        assert_eq!(Metadata::default(), std::iter::empty::<(&str, &str)>().collect());
    }
}
