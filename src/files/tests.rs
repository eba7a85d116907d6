use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{sleep, timeout};

use super::{FileWatcher, WatchSettings};

/// Events only: what these tests see is not the slow look.
const EVENTS: WatchSettings =
    WatchSettings { settle: Duration::from_millis(20), poll: Duration::from_secs(3_600), events: true };

async fn seen(watcher: &mut FileWatcher, what: &str) {
    timeout(Duration::from_secs(10), watcher.changed())
        .await
        .unwrap_or_else(|_| panic!("{what} was not seen"));
}

/// Nothing more comes of what was told already.
async fn quiet(watcher: &mut FileWatcher) {
    assert!(timeout(Duration::from_millis(200), watcher.changed()).await.is_err(), "a change out of nothing");
}

fn replace(path: &Path, text: &str) {
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(&other, path).unwrap();
}

#[tokio::test]
async fn writes_renames_removals_and_returns_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.yml");
    let mut watcher = FileWatcher::start(&file, EVENTS).await.unwrap();
    fs::write(&file, "a").unwrap();
    seen(&mut watcher, "a new file").await;
    fs::write(&file, "b").unwrap();
    seen(&mut watcher, "a write").await;
    replace(&file, "c");
    seen(&mut watcher, "a rename").await;
    fs::read(&file).unwrap();
    fs::write(dir.path().join("other.yml"), "x").unwrap();
    quiet(&mut watcher).await;
    fs::remove_file(&file).unwrap();
    seen(&mut watcher, "a removal").await;
    replace(&file, "c");
    seen(&mut watcher, "a return").await;
}

#[tokio::test]
async fn a_directory_that_is_made_again_is_watched_again() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("etc/app");
    let file = inner.join("registry.yml");
    let mut watcher = FileWatcher::start(&file, EVENTS).await.unwrap();
    for round in 0..3 {
        fs::create_dir_all(&inner).unwrap();
        fs::write(&file, "a").unwrap();
        seen(&mut watcher, "a new directory").await;
        fs::write(&file, format!("b{round}")).unwrap();
        seen(&mut watcher, "a write in it").await;
        fs::remove_dir_all(dir.path().join("etc")).unwrap();
        seen(&mut watcher, "its removal").await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_symlink_swap_of_a_mounted_volume_is_seen() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let publish = |version: &str| {
        fs::create_dir(root.join(version)).unwrap();
        fs::write(root.join(version).join("registry.yml"), "same").unwrap();
        symlink(version, root.join("..tmp")).unwrap();
        fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
    };
    publish("..v1");
    symlink("..data/registry.yml", root.join("registry.yml")).unwrap();
    let mut watcher = FileWatcher::start(root.join("registry.yml"), EVENTS).await.unwrap();
    for version in 2..5 {
        publish(&format!("..v{version}"));
        seen(&mut watcher, "a swap").await;
        fs::remove_dir_all(root.join(format!("..v{}", version - 1))).unwrap();
        // The file behind the link, too.
        fs::write(root.join(format!("..v{version}/registry.yml")), "in place").unwrap();
        seen(&mut watcher, "a write behind the link").await;
    }
}

#[tokio::test]
async fn pieces_are_told_of_once_and_a_cancelled_wait_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.yml");
    fs::write(&file, "").unwrap();
    let settle = Duration::from_millis(200);
    let mut watcher = FileWatcher::start(&file, WatchSettings { settle, ..EVENTS }).await.unwrap();
    assert!(watcher.changed().now_or_never().is_none());
    let mut text = String::new();
    for piece in 0..10 {
        text.push_str(&piece.to_string());
        fs::write(&file, &text).unwrap();
        let cancelled = timeout(Duration::from_millis(10), watcher.changed()).await;
        assert!(cancelled.is_err(), "told of piece {piece}");
    }
    seen(&mut watcher, "the whole file").await;
    assert!(timeout(settle * 2, watcher.changed()).await.is_err(), "told of twice");
    // Cancelled at every point of its way.
    fs::write(&file, "end").unwrap();
    let mut told = false;
    for wait in 0..2_000 {
        told = timeout(Duration::from_micros(wait % 700), watcher.changed()).await.is_ok();
        if told {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert!(told);
}

#[tokio::test]
async fn without_events_the_slow_look_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.yml");
    let poll = Duration::from_millis(10);
    let mut watcher =
        FileWatcher::start(&file, WatchSettings { poll, events: false, ..EVENTS }).await.unwrap();
    quiet(&mut watcher).await;
    replace(&file, "a");
    seen(&mut watcher, "a new file").await;
    replace(&file, "b");
    seen(&mut watcher, "a rename").await;
}
