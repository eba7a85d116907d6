use std::any::Any;
use std::sync::Arc;

use super::RequestStage;
use crate::bytes::same;

/// A group of the current list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub(crate) u32);

/// An instance of the current list, found by [`Groups::instance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceId(pub(crate) u32);

/// What a stage keeps of the groups of one list ([`RequestStage::index`]); only the stage knows the type.
pub type GroupIndex = Box<dyn Any + Send + Sync>;

/// Up to so many groups are looked through one by one, which is then faster than halving.
const FEW: usize = 8;

/// The groups of one stage in the current list, by name, its instances, if it names them, and its index, if it has one.
#[derive(Debug, Default)]
pub struct Groups {
    names: Box<[Arc<str>]>,
    instances: Table,
    index: Option<GroupIndex>,
}

impl Groups {
    /// `names` are sorted and differ; the names of `instances` differ, each with a number of its own.
    pub(crate) fn new(names: Box<[Arc<str>]>, instances: Box<[(Box<str>, u32)]>) -> Self {
        Self { names, instances: Table::new(instances, fastrand::u64(..)), index: None }
    }

    /// The same with the stage's index of them.
    pub(crate) fn indexed(mut self, stage: &dyn RequestStage) -> Self {
        self.index = stage.index(&self);
        self
    }

    /// What the stage made of these groups ([`RequestStage::index`]), if it is of this type.
    #[inline]
    pub fn index<T: 'static>(&self) -> Option<&T> {
        self.index.as_deref()?.downcast_ref()
    }

    /// The instance that the stage calls so ([`RequestStage::instance_name`]); exact. The names are hashed by a secret of
    /// this list, so no name is slow on purpose.
    #[inline]
    pub fn instance(&self, name: &str) -> Option<InstanceId> {
        self.instance_of(name.as_bytes())
    }

    /// The same by a name as it came over the wire, text or not.
    #[inline]
    pub(crate) fn instance_of(&self, name: &[u8]) -> Option<InstanceId> {
        self.instances.find(name).map(InstanceId)
    }

    /// The group of this name; case counts. It compares names and hashes nothing, so no name is slow on purpose.
    #[inline]
    pub fn find(&self, name: &str) -> Option<GroupId> {
        // Among a few, names of another length are passed over without a look at their text.
        let at = if self.names.len() <= FEW {
            self.names.iter().position(|group| same(group.as_bytes(), name.as_bytes()))?
        } else {
            self.names.binary_search_by(|group| (**group).cmp(name)).ok()?
        };
        u32::try_from(at).ok().map(GroupId)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &str)> {
        (0_u32..).zip(self.names.iter()).map(|(at, name)| (GroupId(at), &**name))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Names and their numbers, by open addressing: a look-up is one hash and nearly always one comparison, where halving a
/// thousand names compares ten of them.
#[derive(Debug, Default)]
struct Table {
    entries: Box<[(Box<str>, u32)]>,
    /// Twice as many as entries or more, a power of two; empty when there are none.
    slots: Box<[Slot]>,
    secret: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Some of the hash, so that strangers are told apart without a look at their names.
    tag: u32,
    /// The place among the entries; [`FREE`] if there is none.
    at: u32,
}

const FREE: u32 = u32::MAX;

impl Table {
    /// Of two entries of one name the first is found.
    fn new(entries: Box<[(Box<str>, u32)]>, secret: u64) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        let room = (2 * entries.len()).next_power_of_two();
        let mut slots = vec![Slot { tag: 0, at: FREE }; room];
        for (at, (name, _)) in (0..FREE).zip(&entries) {
            let hash = hash(name.as_bytes(), secret);
            let mut slot = place(hash, room);
            while slots[slot].at != FREE {
                slot = (slot + 1) & (room - 1);
            }
            slots[slot] = Slot { tag: tag(hash), at };
        }
        Self { entries, slots: slots.into(), secret }
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = hash(name, self.secret);
        let (mut slot, tag) = (place(hash, self.slots.len()), tag(hash));
        loop {
            let found = self.slots[slot];
            if found.at == FREE {
                return None;
            }
            if found.tag == tag {
                let (entry, number) = &self.entries[found.at as usize];
                if same(entry.as_bytes(), name) {
                    return Some(*number);
                }
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // the lower half
fn tag(hash: u64) -> u32 {
    hash as u32
}

#[allow(clippy::cast_possible_truncation)] // a place is below `room`
fn place(hash: u64, room: usize) -> usize {
    (hash >> 32) as usize & (room - 1)
}

/// Folded multiplication, eight bytes at a time (Wang Yi, wyhash, 2019). Not for attackers who learn hashes; nobody does.
fn hash(bytes: &[u8], secret: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = secret ^ bytes.len() as u64;
    let mut add = |word: u64| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR);
        #[allow(clippy::cast_possible_truncation)] // both halves are used
        let folded = product as u64 ^ (product >> 64) as u64;
        hash = folded ^ secret;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    add(rest_of(bytes, words.remainder().len()));
    add(FACTOR);
    hash
}

/// The last `count` bytes as a number, fewer than eight; of one count all differ that are not alike.
#[inline]
fn rest_of(bytes: &[u8], count: usize) -> u64 {
    let at = bytes.len() - count;
    if let (1.., Some(last)) = (count, bytes.last_chunk()) {
        return u64::from_le_bytes(*last) >> (64 - 8 * count);
    }
    match &bytes[at..] {
        // Both halves, which may share bytes.
        rest @ [_, _, _, _, ..] => {
            let half = |half: Option<&[u8; 4]>| half.map_or(0, |half| u64::from(u32::from_le_bytes(*half)));
            half(rest.first_chunk()) | half(rest.last_chunk()) << 32
        }
        rest => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str], secret: u64) -> Table {
        Table::new((0..).zip(names).map(|(at, name)| (Box::from(*name), at)).collect(), secret)
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for n in [0, 1, 2, 7, 8, 9, 1_000] {
            let names: Vec<String> = (0..n).map(|at| format!("instance-{at:04}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let table = table(&names, 7);
            for (at, name) in (0..).zip(&names) {
                assert_eq!(table.find(name.as_bytes()), Some(at));
            }
            for stranger in ["", "instance-", "instance-9999", "instance-00000", "\u{0}", "x"] {
                assert_eq!(table.find(stranger.as_bytes()), None, "{stranger:?} among {n}");
            }
        }
        let odd = ["", "\u{0}", "\u{0}\u{0}", "a", "a\u{0}", "12345678", "123456781"];
        let table = table(&odd, 0);
        for (at, name) in (0..).zip(odd) {
            assert_eq!(table.find(name.as_bytes()), Some(at), "{name:?}");
        }
    }

    #[test]
    fn hashes_spread_and_depend_on_the_secret() {
        let names: Vec<String> =
            (0..4_096).map(|at| format!("10.0.{}.{}:8080", at / 256, at % 256)).collect();
        for secret in [0, 1, u64::MAX, 0x1234_5678] {
            let mut counts = vec![0_u32; 4_096];
            for name in &names {
                counts[place(hash(name.as_bytes(), secret), 4_096)] += 1;
            }
            let most = counts.iter().max().unwrap();
            assert!(*most <= 12, "{most} in one place with secret {secret:x}");
        }
        assert_ne!(hash(b"a", 1), hash(b"a", 2));
    }
}
