//! The names of the meters, their units and what they mean; the guide has the same table (`src/guide/observing.md`).

use metrics::{KeyName, Unit};

pub(super) const ACTIVE: &str = "loadbalancer.requests.active";
pub(super) const SUCCESS: &str = "loadbalancer.requests.success";
pub(super) const FAILED: &str = "loadbalancer.requests.failed";
pub(super) const DISCARD: &str = "loadbalancer.requests.discard";
pub(super) const CANCELLED: &str = "loadbalancer.requests.cancelled";

pub(super) const AGE: &str = "evenkeel.list.age";
pub(super) const HASH: &str = "evenkeel.list.hash";
pub(super) const STALE: &str = "evenkeel.list.stale";
pub(super) const GUARDED: &str = "evenkeel.list.guarded";
pub(super) const FAIL_OPEN: &str = "evenkeel.list.fail_open";
pub(super) const INSTANCES: &str = "evenkeel.instances";
pub(super) const ZONES: &str = "evenkeel.zone.instances";
pub(super) const LOOKUPS: &str = "evenkeel.lookups";
pub(super) const HITS: &str = "evenkeel.cache.hits";
pub(super) const STALE_PICKS: &str = "evenkeel.picks.stale";
pub(super) const CROSS_ZONE: &str = "evenkeel.picks.cross_zone";
pub(super) const WAIT: &str = "evenkeel.choose.wait";
pub(super) const RETRIES: &str = "evenkeel.retries";
pub(super) const REFUSED: &str = "evenkeel.retries.refused";

/// The label of our own meters that names the service.
pub(super) const SERVICE: &str = "service";
pub(super) const RESULT: &str = "result";
pub(super) const STATE: &str = "state";
pub(super) const ZONE: &str = "zone";
pub(super) const TO: &str = "to";

enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const ALL: [(Kind, &str, Unit, &str); 19] = [
    (Kind::Gauge, ACTIVE, Unit::Count, "attempts under way on an instance"),
    (Kind::Histogram, SUCCESS, Unit::Seconds, "attempts that got a response, whatever its status"),
    (Kind::Histogram, FAILED, Unit::Seconds, "attempts that got no response"),
    (Kind::Counter, DISCARD, Unit::Count, "calls for which there was no instance"),
    (Kind::Counter, CANCELLED, Unit::Count, "attempts that the caller gave up"),
    (Kind::Gauge, AGE, Unit::Seconds, "time since the source last confirmed the list"),
    (Kind::Gauge, HASH, Unit::Count, "a number that is alike where the same instances are listed"),
    (Kind::Gauge, STALE, Unit::Count, "1 while the list is one that its source does not confirm"),
    (Kind::Gauge, GUARDED, Unit::Count, "1 while the empty guard keeps the last list"),
    (Kind::Gauge, FAIL_OPEN, Unit::Count, "1 while no instance passes its check and all are used"),
    (Kind::Gauge, INSTANCES, Unit::Count, "listed instances by state"),
    (Kind::Gauge, ZONES, Unit::Count, "usable instances by zone"),
    (Kind::Counter, LOOKUPS, Unit::Count, "look-ups by result"),
    (Kind::Counter, HITS, Unit::Count, "picks from the list at hand, without a wait"),
    (Kind::Counter, STALE_PICKS, Unit::Count, "picks from a list that its source does not confirm"),
    (Kind::Counter, CROSS_ZONE, Unit::Count, "picks of an instance in another zone"),
    (Kind::Histogram, WAIT, Unit::Seconds, "how long a caller waited for a list"),
    (Kind::Counter, RETRIES, Unit::Count, "attempts after the first"),
    (Kind::Counter, REFUSED, Unit::Count, "retries that the budget refused"),
];

/// Tells the recorder what the meters are.
pub(super) fn describe(recorder: &dyn metrics::Recorder) {
    for (kind, name, unit, text) in ALL {
        let (name, unit, text) = (KeyName::from_const_str(name), Some(unit), text.into());
        match kind {
            Kind::Counter => recorder.describe_counter(name, unit, text),
            Kind::Gauge => recorder.describe_gauge(name, unit, text),
            Kind::Histogram => recorder.describe_histogram(name, unit, text),
        }
    }
}
