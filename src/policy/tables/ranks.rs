//! A set of small numbers that knows its least one.

/// Numbers below [`Ranks::MOST`] as bits in three levels: a bit of a level says that a word of the
/// level below is not empty, so the least member is at most five words away.
pub(super) struct Ranks {
    /// One bit per 64 groups.
    top: u64,
    /// One bit per word.
    groups: [u64; 64],
    /// One bit per number.
    words: Box<[u64]>,
}

impl Ranks {
    /// Numbers below this can be members.
    pub(super) const MOST: usize = 64 * 64 * 64;

    /// An empty set for numbers below `len`, which is at most [`Self::MOST`].
    pub(super) fn new(len: usize) -> Self {
        Self { top: 0, groups: [0; 64], words: vec![0; len.div_ceil(64)].into_boxed_slice() }
    }

    pub(super) fn insert(&mut self, rank: usize) {
        let (word, group) = (rank / 64, rank / 4096);
        self.words[word] |= 1 << (rank % 64);
        self.groups[group] |= 1 << (word % 64);
        self.top |= 1 << group;
    }

    pub(super) fn remove(&mut self, rank: usize) {
        let (word, group) = (rank / 64, rank / 4096);
        self.words[word] &= !(1 << (rank % 64));
        if self.words[word] == 0 {
            self.groups[group] &= !(1 << (word % 64));
            if self.groups[group] == 0 {
                self.top &= !(1 << group);
            }
        }
    }

    /// The least member that is not below `rank`.
    pub(super) fn first_from(&self, rank: usize) -> Option<usize> {
        let (word, group) = (rank / 64, rank / 4096);
        if let Some(bit) = least(*self.words.get(word)?, rank % 64) {
            return Some(word * 64 + bit);
        }
        let (group, word) = if let Some(word) = least(self.groups[group], word % 64 + 1) {
            (group, word)
        } else {
            let group = least(self.top, group + 1)?;
            (group, least(self.groups[group], 0)?)
        };
        let word = group * 64 + word;
        Some(word * 64 + least(self.words[word], 0)?)
    }
}

/// The lowest bit set at or above `from`, which may be 64.
fn least(word: u64, from: usize) -> Option<usize> {
    let rest = word.checked_shr(u32::try_from(from).ok()?).unwrap_or_default();
    (rest != 0).then(|| from + rest.trailing_zeros() as usize)
}
