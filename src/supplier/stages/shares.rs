//! Shares of the requests that say nothing of themselves.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher24;

use super::metadata::Source;
use crate::Request;
use crate::random::Random;

/// What part of the requests goes to which group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shares {
    groups: Vec<Share>,
    pub(super) hash: Option<Source>,
    chance: Chance,
}

/// The share of one group.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    group: String,
    percent: f64,
    /// A draw below this is in, of those that no group before has drawn; `None` = every draw is.
    below: Option<u64>,
}

/// Where draws come from; no part of what a route is.
#[derive(Clone)]
struct Chance(Arc<Random>);

impl Default for Chance {
    fn default() -> Self {
        Self(Arc::new(Random::new(None)))
    }
}

impl PartialEq for Chance {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}

impl Shares {
    /// The share of one group; an earlier one of the same group is replaced.
    pub(super) fn set(&mut self, group: String, percent: f64) {
        self.groups.retain(|share| share.group != group);
        self.groups.push(Share { group, percent, below: Some(0) });
        // By name, so that a share does not depend on the order in which they were told.
        self.groups.sort_by(|a, b| a.group.cmp(&b.group));
        let mut left = 100.0_f64;
        for share in &mut self.groups {
            share.below = threshold(share.percent, left);
            left -= share.percent;
        }
    }

    pub(super) fn seeded(&mut self, seed: u64) {
        self.chance = Chance(Arc::new(Random::new(Some(seed))));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn has(&self, group: &str) -> bool {
        self.groups.iter().any(|share| share.group == group)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for Share { group, percent, .. } in &self.groups {
            if group.trim().is_empty() {
                return Err(format!("{percent} percent go to a group without a name"));
            }
            if !percent.is_finite() || !(0.0..=100.0).contains(percent) {
                return Err(format!("{percent} percent go to group {group:?}: 0 to 100 are expected"));
            }
        }
        let sum: f64 = self.groups.iter().map(|share| share.percent).sum();
        if sum > 100.0 + MOST_OFF {
            return Err(format!("its percentages add up to {sum}, above 100"));
        }
        match &self.hash {
            Some(_) if self.groups.is_empty() => {
                Err("it has a hash, but no percentage that would need one".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The group that a request without a value of its own is drawn into; `None` = none of them.
    #[inline]
    pub(super) fn draw(&self, key: &str, request: &Request<'_>) -> Option<&str> {
        self.drawn(key, request, &self.chance.0)
    }

    /// The same after so many more draws, without any.
    pub(super) fn foresee(&self, key: &str, request: &Request<'_>, draws: u32) -> Option<&str> {
        let chance = self.chance.0.fork();
        for _ in 0..draws {
            let _ = chance.next();
        }
        self.drawn(key, request, &chance)
    }

    #[inline]
    fn drawn(&self, key: &str, request: &Request<'_>, chance: &Random) -> Option<&str> {
        let drawn = match &self.hash {
            Some(source) => source.read(request, |value| self.find(|group| hash(key, group, value))),
            None => None,
        };
        // By chance when there is nothing to go by.
        drawn.unwrap_or_else(|| self.find(|_| chance.next()))
    }

    fn find(&self, draw: impl Fn(&str) -> u64) -> Option<&str> {
        let is_in = |share: &&Share| share.below.is_none_or(|below| draw(&share.group) < below);
        self.groups.iter().find(is_in).map(|share| share.group.as_str())
    }
}

/// What decimal fractions such as 33.3 + 66.7 may add up to above 100.
const MOST_OFF: f64 = 1e-6;

/// `percent` of 100, where only `left` of 100 get as far as this, as a part of 2^64.
fn threshold(percent: f64, left: f64) -> Option<u64> {
    if percent > 0.0 && percent >= left - MOST_OFF {
        return None;
    }
    // Saturates, and takes NaN for 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let below = (percent / left * u64::MAX as f64) as u64;
    Some(below)
}

/// SipHash-2-4 with a key of zeros over the route's metadata key, a zero byte, the group, a zero byte and the value.
/// It must not change: it would send everybody elsewhere.
fn hash(key: &str, group: &str, value: &str) -> u64 {
    let mut hasher = SipHasher24::new();
    for part in [key, group] {
        hasher.write(part.as_bytes());
        hasher.write(&[0]);
    }
    hasher.write(value.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestView;
    use proptest::prelude::*;

    struct User(Option<String>);

    impl RequestView for User {
        fn header(&self, name: &str) -> Option<&str> {
            self.0.as_deref().filter(|_| name == "user")
        }
    }

    fn shares(percents: &[(&str, f64)]) -> Shares {
        let mut shares = Shares { hash: Some(Source::Header("user".to_owned())), ..Shares::default() };
        for (group, percent) in percents {
            shares.set((*group).to_owned(), *percent);
        }
        shares
    }

    fn side(shares: &Shares, user: u32) -> Option<&str> {
        shares.draw("version", &Request::of(&User(Some(format!("user-{user}")))))
    }

    #[test]
    fn a_share_is_that_share_and_a_user_stays_where_it_is() {
        let shares = shares(&[("canary", 5.0), ("beta", 20.0), ("none", 0.0)]);
        let count = |group| (0..20_000).filter(|user| side(&shares, *user) == group).count();
        assert!((900..1_100).contains(&count(Some("canary"))), "{}", count(Some("canary")));
        assert!((3_850..4_150).contains(&count(Some("beta"))), "{}", count(Some("beta")));
        assert_eq!(count(Some("none")), 0);
        // The same in every version of the crate.
        let first: Vec<u32> = (0..100).filter(|user| side(&shares, *user) == Some("canary")).collect();
        assert_eq!(first, PINNED);
    }

    const PINNED: [u32; 6] = [4, 11, 15, 27, 47, 69];

    #[test]
    fn without_a_value_chance_decides() {
        let mut by_chance = shares(&[("canary", 30.0)]);
        by_chance.seeded(4);
        for request in [None, Some(" ".to_owned())] {
            let view = User(request);
            let drawn =
                (0..2_000).filter(|_| by_chance.draw("version", &Request::of(&view)).is_some()).count();
            assert!((520..680).contains(&drawn), "{drawn}");
        }
    }

    #[test]
    fn all_is_all_and_decimal_fractions_may_add_up_to_it() {
        let all = shares(&[("a", 33.3), ("b", 66.7)]);
        assert_eq!(all.check(), Ok(()));
        assert!((0..5_000).all(|user| side(&all, user).is_some()));
        let too_much = shares(&[("a", 33.3), ("b", 66.8)]).check().unwrap_err();
        assert!(too_much.contains("above 100"), "{too_much}");
        for wrong in [-1.0, 101.0, f64::NAN, f64::INFINITY] {
            let why = shares(&[("a", wrong)]).check().unwrap_err();
            assert!(why.contains("\"a\""), "{why}");
            let _ = side(&shares(&[("a", wrong)]), 1);
        }
        assert!(shares(&[(" ", 1.0)]).check().is_err());
        assert!(shares(&[]).check().unwrap_err().contains("hash"));
    }

    proptest! {
        #[test]
        fn a_higher_percentage_only_moves_users_in(
            a in 0_u32..=50, more in 0_u32..=50, b in 0_u32..=50, users in 0_u32..1_000_000,
        ) {
            let percents = |a: u32| shares(&[("a", f64::from(a)), ("b", f64::from(b.min(100 - a)))]);
            let (low, high) = (percents(a), percents((a + more).min(100)));
            for user in users..users + 20 {
                if side(&low, user) == Some("a") {
                    prop_assert_eq!(side(&high, user), Some("a"));
                }
                // The other group loses only who is drawn by the raised one.
                if side(&low, user) == Some("b") && a + more + b <= 100 {
                    prop_assert!(side(&high, user).is_some());
                }
            }
            // The last group takes from those that no group has.
            let percents = |last: u32| shares(&[("a", f64::from(b)), ("b", f64::from(last))]);
            let (low, high) = (percents(a), percents((a + more).min(100 - b)));
            for user in users..users + 20 {
                if let Some(group) = side(&low, user) {
                    prop_assert_eq!(side(&high, user), Some(group));
                }
            }
        }
    }
}
