//! Keys: how one is written, cut into names, and compared.

use std::fmt::Write as _;

/// One step of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name. `node` counts the maps above it: names of one written key share it.
    Name { text: String, node: usize },
    /// A place in a list.
    Index { at: usize, node: usize },
}

impl Token {
    /// The step as part of a service id or a metadata key.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Name { text, .. } => text.clone(),
            Self::Index { at, .. } => at.to_string(),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name { text, .. } => Some(text),
            Self::Index { .. } => None,
        }
    }

    pub(crate) fn node(&self) -> usize {
        match self {
            Self::Name { node, .. } | Self::Index { node, .. } => *node,
        }
    }

    /// Whether this is this name, in any spelling.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name().is_some_and(|own| letters(own).eq(letters(name)))
    }
}

/// A name without case, dashes and underscores: `hard-age`, `hardAge`, `HARD_AGE` are one.
pub(crate) fn uniform(name: &str) -> String {
    letters(name).collect()
}

/// The letters that tell names apart.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase())
}

/// A service id as it is compared: without ASCII case and without a trailing dot.
pub(crate) fn fold(id: &str) -> String {
    id.strip_suffix('.').unwrap_or(id).to_ascii_lowercase()
}

/// Cuts one written key at its dots and brackets and appends the steps.
///
/// What is in brackets stays whole: digits are a place in a list, anything else a name, dots included. A key with
/// unbalanced brackets is somebody else's: it is kept as it is, and matches nothing.
pub(crate) fn split(key: &str, node: usize, into: &mut Vec<Token>) {
    let mut rest = key;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let Some((text, after)) = inside.split_once(']') else {
                into.push(Token::Name { text: rest.to_owned(), node });
                return;
            };
            into.push(bracketed(text, node));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            into.push(Token::Name { text: rest[..end].trim().to_owned(), node });
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
}

/// Entries a list may have; a larger index is read as a name, which no list knows.
pub(crate) const LONGEST_LIST: usize = 10_000;

fn bracketed(text: &str, node: usize) -> Token {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<usize>() {
        Ok(at) if digits && at < LONGEST_LIST => Token::Index { at, node },
        _ => Token::Name { text: text.to_owned(), node },
    }
}

/// The key as one line, in the spelling its writer used.
pub(crate) fn render(path: &[Token]) -> String {
    let mut out = String::new();
    for token in path {
        match token {
            Token::Index { at, .. } => {
                // Writing to a string cannot fail.
                let _ = write!(out, "[{at}]");
            }
            Token::Name { text, .. } if text.contains('.') => {
                let _ = write!(out, "[{text}]");
            }
            Token::Name { text, .. } => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(text);
            }
        }
    }
    out
}

/// The steps joined as a service id or metadata key, in their own spelling.
pub(crate) fn joined(path: &[Token]) -> String {
    path.iter().map(Token::text).collect::<Vec<_>>().join(".")
}

/// The candidate nearest to a name, if it is near enough to be meant: at most a third of the letters differ,
/// rounded up, so that two swapped letters of a short word still count.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Past this length nobody has misspelt one of our names, and the distance would cost the product of lengths.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let letters = tally(&name);
    candidates
        .into_iter()
        // At least as many letters differ as one has and the other lacks; saying so is far cheaper than counting all.
        .filter(|candidate| {
            let (more, less) =
                tally(candidate).iter().zip(&letters).fold((0, 0), |(more, less), (theirs, ours)| {
                    (more + theirs.saturating_sub(*ours), less + ours.saturating_sub(*theirs))
                });
            usize::from(more.max(less)) <= candidate.len().div_ceil(3)
        })
        .map(|candidate| (distance(&name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How often each letter occurs; letters that no name of ours has are counted together.
fn tally(name: &str) -> [u8; 32] {
    let mut counts = [0; 32];
    for letter in name.chars() {
        let at = u32::from(letter).wrapping_sub(u32::from('a')).min(31) as usize;
        counts[at] += 1;
    }
    counts
}

/// The number of letters to add, drop or change to get from one to the other (Levenshtein).
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(key: &str) -> Vec<String> {
        let mut path = Vec::new();
        split(key, 0, &mut path);
        path.iter()
            .map(|token| match token {
                Token::Name { text, .. } => text.clone(),
                Token::Index { at, .. } => format!("#{at}"),
            })
            .collect()
    }

    #[test]
    fn a_key_is_cut_at_dots_and_brackets() {
        assert_eq!(cut("cache.ttl"), ["cache", "ttl"]);
        assert_eq!(cut("clients[Billing.Api-v2].cache.ttl"), ["clients", "Billing.Api-v2", "cache", "ttl"]);
        assert_eq!(cut("routing[0].fallback[12]"), ["routing", "#0", "fallback", "#12"]);
        assert_eq!(cut("[billing.api]"), ["billing.api"]);
        assert_eq!(cut("a[99999999999999999999]"), ["a", "99999999999999999999"]);
        assert_eq!(cut("a[0"), ["a", "[0"]);
        assert_eq!(cut("a..b."), ["a", "", "b"]);
        assert_eq!(cut(""), [""; 0]);
    }

    #[test]
    fn spellings_of_a_name_are_one() {
        for spelling in ["hard-age", "hardAge", "hard_age", "HARD_AGE", "HardAge"] {
            assert_eq!(uniform(spelling), "hardage");
        }
        assert_eq!(fold("Orders."), "orders");
        assert_eq!(fold("order_service"), "order_service");
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ttl", "ttl"), 0);
        assert_eq!(nearest("cache.tll", ["cache.ttl", "zone"]), Some("cache.ttl"));
        assert_eq!(nearest("utterly-else", ["cache.ttl", "zone"]), None);
    }
}
