//! The versions of one list, in order, so that a pick only compares.

use std::fmt;
use std::ops::Range;

use super::super::super::{GroupId, Groups};
use super::version::Version;

/// Up to so many versions every run of them has a group, so that a range finds all its instances in one view: 28 groups
/// besides those of the versions. A service has two versions at once, or three; with 8 of them an instance is in 20
/// groups at most, and that is what a list's change costs.
const VERSIONS: usize = 8;

/// Stands between the ends of a run in the name of its group.
const TO: &str = "..";

/// A run of at least two versions.
pub(super) struct Span {
    first: Version,
    last: Version,
    name: String,
}

impl Span {
    pub(super) fn contains(&self, version: Version) -> bool {
        (self.first..=self.last).contains(&version)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The runs of the versions of a list; none when there are too many versions.
pub(super) fn spans(versions: &[Option<Version>]) -> Vec<Span> {
    let mut all: Vec<Version> = versions.iter().copied().flatten().collect();
    all.sort_unstable();
    all.dedup();
    if all.len() > VERSIONS {
        return Vec::new();
    }
    let run = |(at, first): (usize, &Version)| {
        let first = *first;
        let run = move |last: &Version| Span { first, last: *last, name: format!("{first}{TO}{last}") };
        all[at + 1..].iter().map(run).collect::<Vec<_>>()
    };
    all.iter().enumerate().flat_map(run).collect()
}

/// Versions and their groups.
pub(super) struct Index {
    versions: Box<[(Version, GroupId)]>,
    /// The group of the run from one version to another, at `first * len + last`; empty without runs.
    spans: Box<[Option<GroupId>]>,
}

impl Index {
    pub(super) fn new(groups: &Groups) -> Self {
        let single = |(group, name): (GroupId, &str)| Some((Version::read(name)?, group));
        let mut versions: Vec<_> =
            groups.iter().filter(|(_, name)| !name.contains(TO)).filter_map(single).collect();
        versions.sort_unstable_by_key(|(version, _)| *version);
        let mut index = Self { versions: versions.into(), spans: Box::default() };
        let len = index.versions.len();
        for (group, name) in groups.iter() {
            let Some((first, last)) = name.split_once(TO) else { continue };
            let place = |name| {
                let version = Version::read(name)?;
                index.versions.binary_search_by_key(&version, |(version, _)| *version).ok()
            };
            let (Some(first), Some(last)) = (place(first), place(last)) else { continue };
            if index.spans.is_empty() {
                index.spans = vec![None; len * len].into();
            }
            index.spans[first * len + last] = Some(group);
        }
        index
    }

    pub(super) fn exact(&self, version: Version) -> Option<GroupId> {
        let at = self.versions.binary_search_by_key(&version, |(version, _)| *version).ok()?;
        Some(self.versions[at].1)
    }

    pub(super) fn newest_compatible(&self, version: Version) -> Option<GroupId> {
        let at = self.versions.partition_point(|(other, _)| other.major <= version.major);
        // If it is older, then by its major version, or within it.
        let (newest, group) = self.versions[..at].last()?;
        (*newest >= version).then_some(*group)
    }

    /// The group of all versions in `interval`; if their run has none, that of the newest.
    pub(super) fn within(&self, interval: &Range<u128>) -> Option<GroupId> {
        let first = self.versions.partition_point(|(version, _)| version.place() < interval.start);
        let end = self.versions.partition_point(|(version, _)| version.place() < interval.end);
        if first >= end {
            return None;
        }
        let last = end - 1;
        let span = self.spans.get(first * self.versions.len() + last).copied().flatten();
        Some(span.unwrap_or(self.versions[last].1))
    }
}

/// "1.0.0, 2.0.0", the newest 8.
impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.versions.is_empty() {
            return f.write_str("none that has one");
        }
        let more = self.versions.len().saturating_sub(VERSIONS);
        let names: Vec<String> =
            self.versions[more..].iter().map(|(version, _)| version.to_string()).collect();
        f.write_str(&names.join(", "))?;
        if more > 0 { write!(f, " and {more} older ones") } else { Ok(()) }
    }
}
