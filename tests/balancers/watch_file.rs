//! A property file that is followed, with a real file and a real clock.

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use evenkeel::config::Properties;

fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

async fn eventually(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_file_that_changes_is_applied_whole_or_not_at_all() {
    let baseline = alive();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    write(&path, "evenkeel: {zone: one, clients: {orders: {cache.ttl: 5s}}}");
    let broken = || logged(&["properties are not reloaded", "soon"]);
    let refused = || logged(&["changed properties are not applied", "\"users\""]);
    assert_eq!((broken(), refused()), (0, 0));
    for given in [false, true] {
        write(&path, "evenkeel: {zone: one, clients: {orders: {cache.ttl: 5s}}}");
        let mut builder = LoadBalancers::builder(Registry::new(Duration::ZERO));
        if given {
            builder =
                builder.properties(Properties::default().set_for("orders", "choose-timeout", "3s").unwrap());
        }
        let balancers = builder.watch_file(&path).build().unwrap();
        let orders = || balancers.properties(&id("orders"));
        if !given {
            assert_eq!(orders().cache.ttl.as_secs(), 5, "loaded before anybody can ask");
        }
        eventually("the first file", || orders().cache.ttl.as_secs() == 5).await;
        assert!(balancers.is_known("orders") && !balancers.is_known("users"));

        write(&path, "evenkeel: {zone: two, clients: {users: {cache.ttl: 6s}}}");
        eventually("the second file", || orders().zone.as_deref() == Some("two")).await;
        assert_eq!(orders().cache.ttl.as_secs(), 35);
        assert_eq!(orders().choose_timeout.as_secs(), if given { 3 } else { 5 }, "the code's layer stays");
        assert!(balancers.is_known("users"));
        assert_eq!(balancers.is_known("orders"), given);

        let before = (broken(), refused());
        write(&path, "evenkeel: {zone: three, cache.ttl: soon}");
        eventually("the warning", || broken() > before.0).await;
        assert_eq!(orders().zone.as_deref(), Some("two"));

        // It can be read, and no chain could work with it.
        write(&path, &format!("evenkeel: {{zone: four, cache.ttl: 9s, clients: {{users: {{{TWICE}}}}}}}"));
        eventually("the error", || refused() > before.1).await;
        assert_eq!((orders().zone.as_deref(), orders().cache.ttl.as_secs()), (Some("two"), 35));

        write(&path, "evenkeel: {zone: five}");
        eventually("the last file", || orders().zone.as_deref() == Some("five")).await;
        drop(balancers);
        eventually("the end of its tasks", || alive() == baseline).await;
    }
}

#[tokio::test]
async fn a_followed_file_that_cannot_be_loaded_is_an_error_of_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    let build = || LoadBalancers::builder(Registry::new(Duration::ZERO)).watch_file(&path).build();
    assert!(build().unwrap_err().to_string().contains("application.yml"));
    write(&path, "evenkeel: {cache.ttl: soon}");
    assert!(build().unwrap_err().to_string().contains("soon"));
    write(&path, "evenkeel: {cache.ttl: 5s}");
    assert!(build().is_ok());
}
