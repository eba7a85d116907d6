use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The logical name of a service, as a registry or a configuration spells it.
///
/// Two spellings that differ only in ASCII case or in a trailing dot are **equal** (and hash alike), so
/// `ORDER-SERVICE`, `order-service` and `order-service.` share one balancer, one list and one rotation. The spelling
/// itself is kept: a case-sensitive registry is asked with the text that was given here.
///
/// A name may hold anything but blanks, control characters and `/ ? # % \`; an underscore is fine.
///
/// ```
/// use evenkeel::ServiceId;
///
/// let id = ServiceId::new("Order_Service.")?;
/// assert_eq!(id.as_str(), "Order_Service");
/// assert_eq!(id, ServiceId::new("order_service")?);
/// assert!(ServiceId::new("bad id").is_err());
/// # Ok::<(), evenkeel::InvalidServiceId>(())
/// ```
#[derive(Clone)]
pub struct ServiceId(Arc<str>);

impl ServiceId {
    /// Checks `text` and keeps its spelling, without a trailing dot.
    ///
    /// # Errors
    /// [`InvalidServiceId`], which quotes the input, for an empty name and for a character that no service name holds.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidServiceId> {
        let given = text.as_ref();
        let name = trimmed(given);
        if name.is_empty() {
            return Err(InvalidServiceId { given: given.to_owned(), reason: "it is empty" });
        }
        if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(InvalidServiceId { given: given.to_owned(), reason: "it holds a blank" });
        }
        if name.contains(['/', '?', '#', '%', '\\']) {
            return Err(InvalidServiceId { given: given.to_owned(), reason: "it holds one of / ? # % \\" });
        }
        Ok(Self(name.into()))
    }

    /// The name as it was given, without a trailing dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` names this service: ASCII case and a trailing dot do not count.
    pub fn matches(&self, text: &str) -> bool {
        // As nearly everybody writes it.
        *self.0 == *text || self.0.eq_ignore_ascii_case(trimmed(text))
    }
}

/// The part of a name that counts. All trailing dots go, so that what is left stays as it is when it is trimmed again.
pub(crate) fn trimmed(name: &str) -> &str {
    // Nearly no name has one.
    if name.ends_with('.') { name.trim_end_matches('.') } else { name }
}

/// A name as numbers that are the same for equal names, and for no others: eight bytes each, and how many there are. For look-ups
/// by a borrowed name.
pub(crate) fn words(name: &str) -> impl Iterator<Item = u64> {
    let name = trimmed(name).as_bytes();
    let (words, rest) = name.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.chain(rest_of(rest)).map(in_lower_case).chain([name.len() as u64])
}

/// The last bytes, fewer than eight. Of how many they are, some may stand in it twice.
fn rest_of(bytes: &[u8]) -> Option<u64> {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return Some(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32);
    }
    let [first, .., last] = bytes else { return bytes.first().map(|byte| u64::from(*byte)) };
    Some(u64::from(*first) | u64::from(bytes[bytes.len() / 2]) << 8 | u64::from(*last) << 16)
}

/// Eight bytes at once, of which those are changed that are capital letters of ASCII.
fn in_lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * EACH);
    // The highest bit of a byte is set where its lower bits are no less than `A`, and where they are more than `Z`.
    let (from_a, beyond_z) = (low + 0x3f * EACH, low + 0x25 * EACH);
    let capital = (from_a ^ beyond_z) & !word & (0x80 * EACH);
    word | capital >> 2
}

impl PartialEq for ServiceId {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ServiceId {}

impl Hash for ServiceId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        words(&self.0).for_each(|word| state.write_u64(word));
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl FromStr for ServiceId {
    type Err = InvalidServiceId;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl TryFrom<&str> for ServiceId {
    type Error = InvalidServiceId;
    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<String> for ServiceId {
    type Error = InvalidServiceId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<&ServiceId> for ServiceId {
    type Error = InvalidServiceId;
    fn try_from(id: &ServiceId) -> Result<Self, Self::Error> {
        Ok(id.clone())
    }
}

/// A text that cannot name a service; it quotes what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServiceId {
    given: String,
    reason: &'static str,
}

impl InvalidServiceId {
    /// The text that was refused.
    pub fn given(&self) -> &str {
        &self.given
    }
}

impl From<std::convert::Infallible> for InvalidServiceId {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for InvalidServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no service id: {}", self.given, self.reason)
    }
}

impl std::error::Error for InvalidServiceId {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn case_047_two_spellings_are_one_service() {
        let set: HashSet<ServiceId> = ["ORDER-SERVICE", "order-service", "Order-Service."]
            .iter()
            .map(|s| ServiceId::new(s).unwrap())
            .collect();
        assert_eq!(set.len(), 1);
        assert_ne!(ServiceId::new("order_service").unwrap(), ServiceId::new("order-service").unwrap());
        assert_eq!(ServiceId::new("Billing.Api-v2").unwrap().as_str(), "Billing.Api-v2");
    }

    #[test]
    fn case_047_names_meet_only_if_they_are_equal() {
        let of = |name: &str| words(name).collect::<Vec<_>>();
        let name = "Aa@Zz[`{_-.Ünï-9azAZ";
        let ends: Vec<usize> = (1..=name.len()).filter(|end| name.is_char_boundary(*end)).collect();
        let mut seen = HashSet::new();
        for end in ends {
            let part = &name[..end];
            let folded = of(part);
            for alike in [part.to_ascii_uppercase(), part.to_ascii_lowercase(), format!("{part}..")] {
                assert_eq!(of(&alike), folded, "{alike}");
            }
            // A dot at the end does not count.
            assert_eq!(seen.insert(folded.clone()), !part.ends_with('.'), "{part}");
            for (at, byte) in part.char_indices().filter(|(_, byte)| byte.is_ascii() && *byte != '.') {
                // Another character, and the one beside a letter's other spelling.
                for other in ["~", "@", "[", "`", "{"] {
                    let changed = format!("{}{other}{}", &part[..at], &part[at + 1..]);
                    let is_same = other.as_bytes()[0] == byte as u8;
                    assert_eq!(of(&changed) == folded, is_same, "{part} {changed}");
                }
            }
        }
    }

    #[test]
    fn case_047_bad_names_are_quoted() {
        for bad in ["", ".", "..", "bad id", "bad%20id", "a/b", "a?b", "a#b", "\u{7}"] {
            let error = ServiceId::new(bad).unwrap_err();
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
    }
}
