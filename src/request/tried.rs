use crate::Choice;

/// The instances that one call has been sent to, so that its next attempt goes to another.
///
/// The first six take no allocation. An instance stays the same one over every refresh of the list.
#[derive(Clone, Debug)]
pub struct Tried {
    /// [`NOBODY`] where there is none yet, so that a look compares all of them at once.
    inline: [u64; INLINE],
    len: u8,
    more: Vec<u64>,
}

/// So many lie in the list itself: more attempts than nearly any call has.
const INLINE: usize = 6;
/// No instance: they are counted from 0.
const NOBODY: u64 = u64::MAX;

impl Default for Tried {
    fn default() -> Self {
        Self::new()
    }
}

impl Tried {
    /// Nothing tried yet.
    pub const fn new() -> Self {
        Self { inline: [NOBODY; INLINE], len: 0, more: Vec::new() }
    }

    /// Adds the instance of `choice`; once is enough, twice does no harm.
    pub fn add(&mut self, choice: &Choice) {
        self.add_uid(choice.state().uid());
    }

    pub(crate) fn add_uid(&mut self, uid: u64) {
        if self.contains(uid) {
            return;
        }
        match self.inline.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = uid;
                self.len += 1;
            }
            None => self.more.push(uid),
        }
    }

    /// Whether the instance of `choice` was tried before.
    pub fn has(&self, choice: &Choice) -> bool {
        self.contains(choice.state().uid())
    }

    /// Whether nothing was tried.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many instances were tried.
    pub fn len(&self) -> usize {
        usize::from(self.len) + self.more.len()
    }

    #[inline]
    pub(crate) fn contains(&self, uid: u64) -> bool {
        let inline = self.inline.iter().filter(|tried| **tried == uid).count() > 0;
        inline || !self.more.is_empty() && self.more.contains(&uid)
    }
}

#[cfg(test)]
mod tests {
    use super::Tried;

    #[test]
    fn it_keeps_more_than_fits_inline_and_each_once() {
        let mut tried = Tried::new();
        assert!(tried.is_empty() && !tried.contains(0));
        for uid in (0..9).chain(0..9) {
            tried.add_uid(uid);
        }
        assert_eq!(tried.len(), 9);
        assert!((0..9).all(|uid| tried.contains(uid)) && !tried.contains(9));
    }
}
