use std::fmt;

/// A version of three numbers, with Spring's reading: what stands before the first digit is skipped, then come one to
/// three numbers with dots between them, and missing ones are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) patch: u32,
}

/// A text longer than this is no version and no range: what a request says is read at every pick.
pub(super) const LONGEST: usize = 256;

impl Version {
    pub(super) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version that `text` means; `None` when it means none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let from = text.bytes().position(|byte| byte.is_ascii_digit())?;
        if text.len() > LONGEST {
            return None;
        }
        let mut parts = [0; 3];
        let mut given = text.get(from..)?.split('.');
        for (at, part) in parts.iter_mut().enumerate() {
            match given.next() {
                Some(digits) => *part = number(digits)?,
                None if at > 0 => break,
                None => return None,
            }
        }
        given.next().is_none().then(|| Self::new(parts[0], parts[1], parts[2]))
    }

    /// Versions as numbers in a row: between two neighbours there is none.
    pub(super) fn place(self) -> u128 {
        u128::from(self.major) << 64 | u128::from(self.minor) << 32 | u128::from(self.patch)
    }
}

/// Digits alone, up to 2^32 - 1.
pub(super) fn number(digits: &str) -> Option<u32> {
    let only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    only.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
