use std::borrow::Cow;

use super::HashKey;
use super::md5::Md5;
use super::picker::ByTable;
use super::ring::Points;
use super::table::Plan;
use crate::Request;
use crate::policy::{Candidates, Picker, Policy};

/// Dubbo's `consistenthash`: a ring of points by MD5, so that a client here and a consumer there agree.
///
/// An instance has 160 points, in groups of four from the MD5 of its address and a number; a key is the MD5 of the texts of
/// the arguments that count, without a separator. Where weights are on, which Dubbo's does not honour, an instance has as many
/// points as its weight is of the median weight, in fours. A list is hashed once per change, and not once per call.
///
/// Defaults: 160 points, the first argument.
///
/// ```
/// use evenkeel::policy::{DubboConsistentHash, HashKey};
///
/// let by_first_argument = DubboConsistentHash::default();
/// let by_header = DubboConsistentHash::new(HashKey::header("x-user")).with_nodes(320);
/// ```
#[derive(Clone, Debug)]
pub struct DubboConsistentHash {
    key: HashKey,
    nodes: u32,
}

impl Default for DubboConsistentHash {
    fn default() -> Self {
        Self::by_arguments([0])
    }
}

impl DubboConsistentHash {
    /// By the texts of this key, joined without a separator.
    pub fn new(key: HashKey) -> Self {
        Self { key, nodes: 160 }
    }

    /// By the arguments with these numbers (`hash.arguments` in Dubbo). A client gives an argument's text as the attribute
    /// `argument.<number>` of its request; those it lacks are passed over, and without any it is chance that picks.
    pub fn by_arguments(numbers: impl IntoIterator<Item = u32>) -> Self {
        let one = |number| HashKey::attribute(format!("argument.{number}"));
        Self::new(numbers.into_iter().map(one).fold(HashKey::default(), HashKey::and))
    }

    /// Where on the ring the key of `request` is, from 0 to 2^32 - 1; `None` when it has none.
    ///
    /// ```
    /// use evenkeel::policy::{DubboConsistentHash, HashKey};
    /// use evenkeel::Request;
    ///
    /// let fixed = DubboConsistentHash::new(HashKey::attribute("user"));
    /// assert_eq!(fixed.hash(&Request::EMPTY), None);
    /// ```
    pub fn hash(&self, request: &Request<'_>) -> Option<u32> {
        digest(&self.key, request)
    }

    /// How many points an instance has (`hash.nodes` in Dubbo; default: 160), in fours, and four at least.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }
}

impl Policy for DubboConsistentHash {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("consistent-hash")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        let plan = Plan::Ring(Points::Dubbo(self.nodes.max(4)));
        // Points stand in the high halves of hashes.
        let high =
            |key: &HashKey, request: &Request<'_>| digest(key, request).map(|hash| u64::from(hash) << 32);
        Box::new(ByTable::new(set, (&self.key, high), plan, None))
    }
}

/// The first four bytes of the digest.
fn digest(key: &HashKey, request: &Request<'_>) -> Option<u32> {
    let mut text = Md5::new();
    let any = key.texts(request, &mut |piece| text.write(piece));
    let [a, b, c, d, ..] = text.finish();
    any.then(|| u32::from_le_bytes([a, b, c, d]))
}
