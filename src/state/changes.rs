//! The last changes of a service, for who asks what happened.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::ServiceState;
use crate::ServiceInstance;

/// How many are kept: a bad night of a service of some tens of instances. With texts of [`LONGEST`] that is 100 KB at most.
const KEEP: usize = 256;
/// How many letters a text may have: an error of a registry may quote a page.
const LONGEST: usize = 300;

/// Among how many of the last ones an equal one is looked for: an instance that fails and recovers by turns, a thousand times a
/// minute, is two lines with a count, and so are thirty of them.
const NEAR: usize = 64;

/// What kind of change it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// The first list of the service.
    Listed,
    /// The source lists an instance that it did not list before.
    Added,
    /// It lists one no longer.
    Removed,
    /// It says something else of one.
    Changed,
    /// There is nothing left to choose from.
    NothingToChoose,
    /// There is something again.
    ChoiceAgain,
    /// The source does not answer.
    SourceFailed,
    /// It answers again.
    SourceRecovered,
    /// The last list is too old to be served.
    ListDropped,
    /// The source gives an empty list, and the last one is kept for now.
    GuardOn,
    /// It gives a list again, or the empty one is believed.
    GuardOff,
    /// A call could not be sent to an instance: it is skipped.
    Skipped,
    /// It answered: it is back in use.
    Back,
    /// A failure of an instance counts as load.
    Failing,
    /// It gave a good answer: failures before it count as nothing.
    Well,
    /// An instance fails its health check.
    CheckFailed,
    /// It passes it.
    CheckPassed,
    /// An instance is ejected, since it does worse than its like.
    Ejected,
    /// It is no longer.
    Returned,
    /// New instances are connected before they get calls.
    Connecting,
    /// They are connected, or get calls all the same.
    Connected,
    /// Too few instances are well, so that all are used.
    PanicOn,
    /// Enough are well.
    PanicOff,
    /// The preference of zones works otherwise from now on.
    ZoneMode,
    /// Changed properties are in force.
    ConfigApplied,
    /// They are not applied.
    ConfigRefused,
    /// An operator's override is in force.
    OverrideSet,
    /// It ended.
    OverrideEnded,
}

impl ChangeKind {
    /// The word that reports write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::NothingToChoose => "nothing-to-choose",
            Self::ChoiceAgain => "choice-again",
            Self::SourceFailed => "source-failed",
            Self::SourceRecovered => "source-recovered",
            Self::ListDropped => "list-dropped",
            Self::GuardOn => "guard-on",
            Self::GuardOff => "guard-off",
            Self::Skipped => "skipped",
            Self::Back => "back",
            Self::Failing => "failing",
            Self::Well => "well",
            Self::CheckFailed => "check-failed",
            Self::CheckPassed => "check-passed",
            Self::Ejected => "ejected",
            Self::Returned => "returned",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::PanicOn => "panic-on",
            Self::PanicOff => "panic-off",
            Self::ZoneMode => "zone-mode",
            Self::ConfigApplied => "config-applied",
            Self::ConfigRefused => "config-refused",
            Self::OverrideSet => "override-set",
            Self::OverrideEnded => "override-ended",
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One change as it is kept. The instance is a handle: nothing is written out before somebody reads.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// Counts the changes of the service, from 1.
    pub(crate) number: u64,
    pub(crate) kind: ChangeKind,
    pub(crate) instance: Option<ServiceInstance>,
    pub(crate) detail: Cow<'static, str>,
    /// The last time, and the first.
    pub(crate) at: Instant,
    pub(crate) first: Instant,
    /// How often it was the same.
    pub(crate) times: u32,
}

/// The ring.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    noted: VecDeque<Noted>,
    count: u64,
}

impl Changes {
    fn note(&self, kind: ChangeKind, instance: Option<&ServiceInstance>, detail: Cow<'static, str>) {
        let (at, detail, instance) = (Instant::now(), shortened(detail), instance.cloned());
        let gone = {
            let mut ring = self.0.lock();
            ring.count += 1;
            let number = ring.count;
            let same = |one: &Noted| {
                let one_instance = match (&one.instance, &instance) {
                    (Some(one), Some(other)) => one.same_identity(other),
                    (one, other) => one.is_none() && other.is_none(),
                };
                one.kind == kind && one_instance && one.detail == detail
            };
            let from = ring.noted.len().saturating_sub(NEAR);
            let before = (from..ring.noted.len()).rev().find(|at| same(&ring.noted[*at]));
            if let Some(mut again) = before.and_then(|at| ring.noted.remove(at)) {
                (again.number, again.at, again.times) = (number, at, again.times.saturating_add(1));
                ring.noted.push_back(again);
                return;
            }
            let gone = if ring.noted.len() >= KEEP { ring.noted.pop_front() } else { None };
            ring.noted.push_back(Noted { number, kind, instance, detail, first: at, at, times: 1 });
            gone
        };
        // What it held is freed outside the lock.
        drop(gone);
    }

    /// All that are kept, the oldest first.
    fn all(&self) -> Vec<Noted> {
        self.0.lock().noted.iter().cloned().collect()
    }
}

fn shortened(detail: Cow<'static, str>) -> Cow<'static, str> {
    match detail.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}...", &detail[..end])),
        None => detail,
    }
}

impl ServiceState {
    /// Notes a change: never on the path of a pick, and only what changed. The lock is held for a push into a ring; one that
    /// was noted lately is counted there, and moves to the end.
    pub(crate) fn note(
        &self,
        kind: ChangeKind,
        instance: Option<&ServiceInstance>,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.changes.note(kind, instance, detail.into());
    }

    /// The last changes, the oldest first.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        self.changes.all()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use crate::ServiceId;

    #[tokio::test(start_paused = true)]
    async fn the_last_256_are_kept_in_order_and_equal_ones_are_one() {
        let service = ServiceState::new(ServiceId::new("s").unwrap());
        let instance = ServiceInstance::new("10.0.0.1", 80).unwrap();
        for n in 0..300 {
            service.note(ChangeKind::Changed, Some(&instance), format!("{n}"));
        }
        let noted = service.noted();
        assert_eq!((noted.len(), noted[0].number, noted[255].number), (256, 45, 300));
        assert_eq!((&*noted[0].detail, &*noted[255].detail), ("44", "299"));
        let at = noted[254].at;
        tokio::time::advance(std::time::Duration::from_secs(3)).await;
        for _ in 0..7 {
            service.note(ChangeKind::Changed, Some(&instance), "298");
        }
        let noted = service.noted();
        assert_eq!(
            (noted.len(), noted[255].times, noted[255].number, &*noted[254].detail),
            (256, 8, 307, "299")
        );
        assert_eq!(((noted[255].at - at).as_secs(), noted[255].first), (3, at));
        // Another instance, another kind or another word is another change, and so is one of long ago.
        service.note(ChangeKind::Changed, None, "299");
        service.note(ChangeKind::Added, None, "299");
        service.note(ChangeKind::Changed, Some(&instance), "100");
        let noted = service.noted();
        assert!(noted[253..].iter().all(|one| one.times == 1) && noted.len() == 256);
        assert!(noted.is_sorted_by_key(|one| one.number));
    }

    #[test]
    fn who_fails_and_recovers_by_turns_pushes_nothing_out() {
        let service = ServiceState::new(ServiceId::new("s").unwrap());
        service.note(ChangeKind::Listed, None, "30 instances");
        let all: Vec<_> = (1..=30).map(|n| ServiceInstance::new("10.0.0.1", n).unwrap()).collect();
        for _ in 0..1_000 {
            for one in &all {
                service.note(ChangeKind::Failing, Some(one), "a failure");
                service.note(ChangeKind::Well, Some(one), "a good answer");
            }
        }
        let noted = service.noted();
        assert_eq!((noted.len(), noted[0].kind), (61, ChangeKind::Listed));
        assert!(noted[1..].iter().all(|one| one.times == 1_000));
    }

    #[test]
    fn a_text_of_any_length_is_cut_at_a_letter() {
        let service = ServiceState::new(ServiceId::new("s").unwrap());
        service.note(ChangeKind::SourceFailed, None, "ä".repeat(100_000));
        service.note(ChangeKind::SourceFailed, None, "ä".repeat(LONGEST));
        let lengths: Vec<_> = service.noted().iter().map(|noted| noted.detail.chars().count()).collect();
        assert_eq!(lengths, [LONGEST + 3, LONGEST]);
    }
}
