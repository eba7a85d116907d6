//! The variables of the environment.

use std::collections::HashMap;
use std::fmt;

/// Variables in the order they were given.
#[derive(Clone, Default)]
pub(crate) struct Variables {
    list: Vec<(String, String)>,
    index: HashMap<String, usize>,
}

/// Without the values: an environment is where secrets are kept.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} variables", self.list.len())
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let list: Vec<_> = variables.into_iter().collect();
        let index = list.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        Self { list, index }
    }
}

impl Variables {
    pub(crate) fn all(&self) -> &[(String, String)] {
        &self.list
    }

    /// The variable that stands for a key, and its value: the name itself, else the spellings of Spring, so that
    /// `app.own-zone` is `APP_OWNZONE` or `APP_OWN_ZONE`.
    pub(crate) fn of_key(&self, key: &str) -> Option<(&str, &str)> {
        let broken: String =
            key.chars().filter(|c| *c != ']').map(|c| if ".-[".contains(c) { '_' } else { c }).collect();
        let joined: String = key.chars().filter(|c| *c != '-').collect();
        let joined = joined.replace(']', "").replace(['.', '['], "_");
        let upper = [joined.to_ascii_uppercase(), broken.to_ascii_uppercase()];
        [key, &broken].into_iter().chain(upper.iter().map(String::as_str)).find_map(|name| {
            let (name, value) = &self.list[*self.index.get(name)?];
            Some((name.as_str(), value.as_str()))
        })
    }

    /// The variables that stand for a list: one for all of it, or one for each of its places.
    #[cfg(feature = "config")]
    pub(crate) fn of_list(&self, key: &str) -> Option<Vec<(&str, &str)>> {
        let one = self.of_key(key).map(|one| vec![one]);
        one.or_else(|| {
            let items: Vec<_> = (0..).map_while(|at| self.of_key(&format!("{key}[{at}]"))).collect();
            (!items.is_empty()).then_some(items)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_variable() {
        let of = |variable: &str, key: &str| {
            let variables = Variables::from_iter([(variable.to_owned(), "v".to_owned())]);
            variables.of_key(key).is_some()
        };
        for variable in ["app.own-zone", "app_own_zone", "APP_OWNZONE", "APP_OWN_ZONE"] {
            assert!(of(variable, "app.own-zone"), "{variable}");
        }
        assert!(of("APP_ZONES_0", "app.zones[0]") && of("ZONE", "ZONE") && of("ZONE", "zone"));
        assert!(!of("zone", "ZONE") && !of("APP", "app.zone") && !of("APP_ZONE", "APP.ZONES"));
    }
}
