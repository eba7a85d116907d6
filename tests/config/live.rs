//! Properties that change while the process runs.

use super::*;
use evenkeel::config::LiveProperties;

#[test]
fn a_failed_reload_keeps_the_whole_of_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("evenkeel: {zone: a, cache.ttl: 5s}");
    let initial = Properties::default()
        .with_environment([("EVENKEEL_CHOOSE_TIMEOUT", "2s")])
        .and_then(|properties| properties.set_for("billing", "connect-timeout", "3s"))
        .and_then(|properties| properties.with_file(&path))
        .unwrap();
    let live = LiveProperties::new(initial);
    let mut receiver = live.subscribe();
    assert!(!receiver.has_changed().unwrap());

    write("evenkeel: {zone: b, cache.ttl: soon}");
    assert!(live.reload_file(&path).is_err());
    write("evenkeel: {zone: b, cache.ttl: [");
    assert!(live.reload_file(&path).is_err());
    assert!(!receiver.has_changed().unwrap());
    let orders = live.current().effective("orders");
    assert_eq!((orders.zone.as_deref(), orders.cache.ttl), (Some("a"), seconds(5)));

    write("evenkeel: {zone: b, cache.ttl: 6s}");
    assert!(live.reload_file(&path).unwrap());
    assert!(receiver.has_changed().unwrap());
    let billing = receiver.borrow_and_update().effective("billing");
    assert_eq!((billing.zone.as_deref(), billing.cache.ttl), (Some("b"), seconds(6)));
    // The environment and the code are still above the new file.
    assert_eq!((billing.choose_timeout, billing.connect_timeout), (seconds(2), seconds(3)));

    // Moved lines and other spellings are no change.
    write("\n\nevenkeel:\n  zone: b\n  cache: {TTL: 6s}\n");
    assert!(!live.reload_file(&path).unwrap());
    assert!(!receiver.has_changed().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(live.reload_file(&path).is_err());
    assert_eq!(live.current().effective("orders").zone.as_deref(), Some("b"));
}

#[test]
fn clones_share_one_state() {
    let live = LiveProperties::new(Properties::default());
    let other = live.clone();
    assert!(other.replace(yaml("evenkeel.zone: a")));
    assert!(!other.replace(yaml("evenkeel.zone: a")));
    assert_eq!(live.current().effective("x").zone.as_deref(), Some("a"));
    // A change made while a reload is under way may run inside it.
    let changed = live.reload(|current| {
        other.replace(yaml("evenkeel.zone: b"));
        Ok(current.clone())
    });
    assert!(changed.unwrap());
}

#[test]
fn what_is_no_change_is_in_force_all_the_same() {
    let live = LiveProperties::new(yaml("app.zone: old\nevenkeel.cache.ttl: 5s\nevenkeel.zonee: x\n"));
    let receiver = live.subscribe();
    assert!(!live.replace(yaml("\napp.zone: new\nevenkeel.cache.ttl: 5s\n")));
    assert!(!receiver.has_changed().unwrap());
    // The warning is gone, the lines are those of the file that was read last, and so are the values of others.
    let current = live.current();
    assert_eq!(current.warnings(), []);
    assert_eq!(current.report("orders").get("cache.ttl").unwrap().origin.to_string(), "application.yml:3");
    live.reload(|current| current.clone().set("zone", "${app.zone}")).unwrap();
    assert_eq!(live.current().effective("orders").zone.as_deref(), Some("new"));
}
