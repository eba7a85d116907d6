//! Filters of the path. What they do not touch stays byte for byte.

use regex::Regex;

use super::template::{Replacement, Template};
use crate::gateway::pattern::Variable;

/// A filter of the path.
#[derive(Debug)]
pub(in crate::gateway) enum PathFilter {
    Strip(usize),
    Prefix(Template),
    Rewrite(Regex, Replacement),
    Set(Template),
}

impl PathFilter {
    /// The path after it.
    pub(in crate::gateway) fn apply(&self, path: &str, variables: &[Variable]) -> String {
        let made = match self {
            Self::Strip(count) => return stripped(path, *count).to_owned(),
            Self::Prefix(prefix) => {
                let prefix = prefix.path(variables);
                format!("{}{path}", prefix.strip_suffix('/').unwrap_or(&prefix))
            }
            Self::Rewrite(regex, replacement) => replacement.apply(regex, path),
            Self::Set(template) => template.path(variables),
        };
        if made.starts_with('/') { made } else { format!("/{made}") }
    }
}

/// The path without its first segments; at least a slash is left.
fn stripped(path: &str, count: usize) -> &str {
    let mut rest = path;
    for _ in 0..count {
        let inner = rest.strip_prefix('/').unwrap_or(rest);
        match inner.find('/') {
            Some(at) => rest = &inner[at..],
            None => return "/",
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_stripped_and_the_rest_stays_as_it_is() {
        for (path, count, wanted) in [
            ("/a/b/c", 1, "/b/c"),
            ("/a/b/c", 2, "/c"),
            ("/a/b/c", 3, "/"),
            ("/a/b/c", 9, "/"),
            ("/a", 0, "/a"),
            ("/a/", 1, "/"),
            ("/a/b%2Fc//d/", 1, "/b%2Fc//d/"),
            ("/", 1, "/"),
        ] {
            assert_eq!(stripped(path, count), wanted, "{path} {count}");
        }
    }

    #[test]
    fn a_path_always_begins_with_a_slash() {
        let variables = [Variable { name: "a".to_owned(), value: "x".to_owned(), raw: false }];
        let template = |text: &str| Template::parse(text, &["a"]).unwrap();
        assert_eq!(PathFilter::Set(template("{a}/y")).apply("/b", &variables), "/x/y");
        assert_eq!(PathFilter::Prefix(template("/p/")).apply("/b", &variables), "/p/b");
        let regex = Regex::new("^/b").unwrap();
        let nothing = Replacement::parse("", &regex).unwrap();
        assert_eq!(PathFilter::Rewrite(regex, nothing).apply("/b", &variables), "/");
    }
}
