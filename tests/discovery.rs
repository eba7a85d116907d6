//! Sources of instances against real files.
#![cfg(feature = "file")]

#[path = "support/log.rs"]
mod log;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel::discovery::{DiscoveryClient, FileDiscovery, FileFormat, Lists, SourceState, SupplyErrorKind};
use evenkeel::{ServiceId, ServiceInstance};
use futures_util::{FutureExt, StreamExt};
use log::Log;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Far beyond what an event takes; a test that waits this long has failed.
const LIMIT: Duration = Duration::from_secs(10);
/// Far beyond a whole test: what is seen comes from events.
const NEVER: Duration = Duration::from_secs(3_600);

fn orders() -> ServiceId {
    ServiceId::new("orders").unwrap()
}

fn source(path: &Path) -> FileDiscovery {
    FileDiscovery::new(path).with_settle_time(Duration::from_millis(20)).with_poll_interval(NEVER)
}

/// Writes another file and renames it over `path`.
fn replace(path: &Path, text: &str) {
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(&other, path).unwrap();
}

fn ports(list: &[ServiceInstance]) -> Vec<u16> {
    list.iter().filter_map(ServiceInstance::port).collect()
}

async fn next(lists: &mut Lists) -> Result<Vec<u16>, (SupplyErrorKind, String)> {
    let item = timeout(LIMIT, lists.next()).await.expect("the change was seen").expect("the stream goes on");
    item.map(|list| ports(&list)).map_err(|error| (error.kind(), error.to_string()))
}

/// The next list with these ports; what is seen on the way there does not count.
async fn until(lists: &mut Lists, wanted: &[u16]) {
    timeout(LIMIT, async { while next(lists).await.ok().as_deref() != Some(wanted) {} })
        .await
        .expect("the list came");
}

fn registry(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[tokio::test]
async fn case_051_one_warning_for_each_bad_entry_however_often_the_file_changes() {
    let (log, entry) =
        (Log::default(), |id: &str, port: &str| format!("- {{id: {id}, host: h, port: {port}}}\n"));
    let bad =
        [("c", "0"), ("d", "-1"), ("e", "70000"), ("f", "80a")].map(|(id, port)| entry(id, port)).concat();
    let (_dir, path) =
        registry("registry.yml", &format!("orders:\n{}- {{id: b, host: h}}\n{bad}", entry("a", "8080")));
    let _guard = log.capture();
    let source = source(&path);
    let list = source.instances(&orders()).await.unwrap();
    assert_eq!(list.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["a", "b"]);
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(next(&mut lists).await, Ok(vec![8080]));
    replace(&path, &format!("orders:\n{}{bad}", entry("a", "8081")));
    until(&mut lists, &[8081]).await;
    for id in ["c", "d", "e", "f"] {
        assert_eq!(log.count(&format!("instance \"{id}\" of service \"orders\"")), 1, "{id}");
    }
    replace(&path, &format!("orders:\n{}{}", entry("c", "0"), entry("d", "-1")));
    until(&mut lists, &[]).await;
    assert_eq!(source.instances(&orders()).await.unwrap(), []);
}

#[tokio::test]
async fn a_rename_is_pushed_to_those_whose_list_it_changes() {
    let (_dir, path) = registry("registry.json", r#"{"orders": ["h:1"], "users": ["h:9"]}"#);
    let source = source(&path);
    let users = ServiceId::new("USERS").unwrap();
    let (mut a, mut b) = (source.watch(&orders()).unwrap(), source.watch(&users).unwrap());
    assert_eq!((next(&mut a).await, next(&mut b).await), (Ok(vec![1]), Ok(vec![9])));
    replace(&path, r#"{"orders": ["h:2", "h:3"], "users": ["h:9"]}"#);
    assert_eq!(next(&mut a).await, Ok(vec![2, 3]));
    assert!(b.next().now_or_never().is_none());
    assert_eq!(source.services().await.unwrap(), [orders(), users.clone()]);
    // Missing in a file that can be read: truly empty.
    replace(&path, r#"{"users": ["h:9"]}"#);
    assert_eq!(next(&mut a).await, Ok(vec![]));
    assert_eq!(source.instances(&orders()).await.unwrap(), []);
    assert_eq!(source.health().state, SourceState::Healthy);
}

#[tokio::test]
async fn a_broken_file_keeps_the_last_good_lists_and_says_where() {
    for (name, good, broken, place) in [
        ("registry.yml", "orders: [h:1]\n", "orders: [h:1]\nusers: [h:2", ":2:8: "),
        ("registry.toml", "orders = [\"h:1\"]\n", "orders = [\"h:1\"]\nusers = [\n\"h", ":3:"),
        ("registry.json", "{\"orders\": [\"h:1\"]}", "{\"orders\": [\"h:1\",\n\"h:", ":2:"),
    ] {
        let log = Log::default();
        let _guard = log.capture();
        let (_dir, path) = registry(name, good);
        let source = source(&path);
        let mut lists = source.watch(&orders()).unwrap();
        assert_eq!(next(&mut lists).await, Ok(vec![1]));
        fs::write(&path, broken).unwrap();
        let (kind, text) = loop {
            // A write in place empties the file first; that may be seen, and is no answer either.
            let (kind, text) = next(&mut lists).await.unwrap_err();
            if !text.contains("it is empty") {
                break (kind, text);
            }
        };
        assert_eq!(kind, SupplyErrorKind::Invalid);
        assert!(text.contains(&format!("{}{place}", path.display())), "{text}");
        assert_eq!(ports(&source.instances(&orders()).await.unwrap()), [1]);
        let health = source.health();
        assert_eq!(health.state, SourceState::Failing);
        assert!(health.failures >= 1 && health.last_ok.is_some());
        // The same problem again is no news; a subscriber who comes now gets the good list and the problem.
        replace(&path, broken);
        let mut late = source.watch(&orders()).unwrap();
        assert_eq!(next(&mut late).await, Ok(vec![1]));
        assert_eq!(next(&mut late).await.unwrap_err().0, SupplyErrorKind::Invalid);
        // Said again when it can be read again, though it is the same list.
        replace(&path, good);
        assert_eq!(next(&mut lists).await, Ok(vec![1]));
        assert_eq!(next(&mut late).await, Ok(vec![1]));
        assert_eq!(log.count(&format!("{}{place}", path.display())), 1);
        assert_eq!(source.health().state, SourceState::Healthy);
    }
}

#[tokio::test]
async fn an_empty_or_missing_file_is_no_answer() {
    let (dir, path) = registry("registry.yml", "orders: [h:1]\n");
    let source = source(&path);
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(next(&mut lists).await, Ok(vec![1]));
    replace(&path, "");
    assert!(next(&mut lists).await.unwrap_err().1.contains("it is empty"));
    fs::remove_file(&path).unwrap();
    assert_eq!(next(&mut lists).await.unwrap_err().0, SupplyErrorKind::Io);
    assert_eq!(ports(&source.instances(&orders()).await.unwrap()), [1]);
    replace(&path, "orders: [h:2]\n");
    assert_eq!(next(&mut lists).await, Ok(vec![2]));

    // One that never could be read has no last good list.
    let missing = dir.path().join("later/registry.toml");
    let source = self::source(&missing);
    let error = source.instances(&orders()).await.unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Io);
    assert!(error.to_string().contains(&*missing.to_string_lossy()), "{error}");
    assert!(source.services().await.is_err());
    let mut lists = source.watch(&orders()).unwrap();
    assert!(next(&mut lists).await.is_err());
    fs::create_dir(missing.parent().unwrap()).unwrap();
    replace(&missing, "orders = [\"h:3\"]\n");
    until(&mut lists, &[3]).await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_symlink_swap_of_a_mounted_volume_is_followed() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let publish = |version: u16| {
        let data = format!("..v{version}");
        fs::create_dir(root.join(&data)).unwrap();
        fs::write(root.join(&data).join("registry.yml"), format!("orders: [h:{version}]\n")).unwrap();
        symlink(&data, root.join("..tmp")).unwrap();
        fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
    };
    publish(1);
    symlink("..data/registry.yml", root.join("registry.yml")).unwrap();
    let mut lists = source(&root.join("registry.yml")).watch(&orders()).unwrap();
    assert_eq!(next(&mut lists).await, Ok(vec![1]));
    for version in 2..6 {
        publish(version);
        assert_eq!(next(&mut lists).await, Ok(vec![version]));
        fs::remove_dir_all(root.join(format!("..v{}", version - 1))).unwrap();
    }
}

#[tokio::test]
async fn a_mount_without_events_is_looked_at() {
    let (_dir, path) = registry("registry", "orders = [\"h:1\"]\n");
    let source = FileDiscovery::new(&path)
        .with_format(FileFormat::Toml)
        .with_events(false)
        .with_poll_interval(Duration::from_millis(10));
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(next(&mut lists).await, Ok(vec![1]));
    replace(&path, "orders = [\"h:2\"]\n");
    assert_eq!(next(&mut lists).await, Ok(vec![2]));
}

#[tokio::test]
async fn one_reader_serves_all_and_ends_with_the_last_of_them() {
    let (_dir, path) = registry("registry.yml", "orders: [h:1]\n");
    let alive = || Handle::current().metrics().num_alive_tasks();
    let source = source(&path);
    assert_eq!(alive(), 0, "nothing runs before the first use");
    let copy = source.clone();
    let mut lists = source.watch(&orders()).unwrap();
    assert_eq!(alive(), 0);
    assert_eq!(next(&mut lists).await, Ok(vec![1]));
    copy.instances(&orders()).await.unwrap();
    assert_eq!(alive(), 1);
    drop((source, copy));
    replace(&path, "orders: [h:2]\n");
    assert_eq!(next(&mut lists).await, Ok(vec![2]));
    drop(lists);
    timeout(LIMIT, async {
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the reader ended");
}

#[test]
fn a_reader_whose_runtime_went_away_starts_again() {
    let (_dir, path) = registry("registry.yml", "orders: [h:1]\n");
    let source = source(&path);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut lists = source.watch(&orders()).unwrap();
    runtime().block_on(async { assert_eq!(next(&mut lists).await, Ok(vec![1])) });
    assert_eq!(source.health().state, SourceState::Failing);
    replace(&path, "orders: [h:2]\n");
    runtime().block_on(async {
        until(&mut lists, &[2]).await;
        replace(&path, "orders: [h:3]\n");
        until(&mut lists, &[3]).await;
        assert_eq!(ports(&source.instances(&orders()).await.unwrap()), [3]);
    });
    // Outside of a runtime it says so, and the stream ends instead of hanging.
    let error = source.instances(&orders()).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), SupplyErrorKind::Aborted);
    let mut lists = source.watch(&orders()).unwrap();
    assert!(lists.next().now_or_never().unwrap().unwrap().is_err());
    assert!(lists.next().now_or_never().unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_written_all_the_time_never_gives_a_wrong_list() {
    let (_dir, path) = registry("registry.yml", "orders: [h:1, h:1001]\n");
    let source =
        FileDiscovery::new(&path).with_settle_time(Duration::from_millis(1)).with_poll_interval(NEVER);
    let mut lists = source.watch(&orders()).unwrap();
    let writer = tokio::task::spawn_blocking({
        let path = path.clone();
        move || {
            for n in 1..=200_u16 {
                replace(&path, &format!("orders: [h:{n}, h:{}]\n", n + 1_000));
            }
        }
    });
    loop {
        let list = next(&mut lists).await.unwrap();
        assert_eq!(list[1], list[0] + 1_000);
        if list[0] == 200 {
            break;
        }
    }
    writer.await.unwrap();
}

#[test]
fn a_reader_can_be_given_a_runtime_of_its_own() {
    let (_dir, path) = registry("registry.yml", "orders: [h:1]\n");
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let source = source(&path).with_runtime(own.handle().clone());
    let mut lists = source.watch(&orders()).unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async { assert_eq!(next(&mut lists).await, Ok(vec![1])) });
    // The caller's runtime is gone; the reader is not.
    assert_eq!(source.health().state, SourceState::Healthy);
    replace(&path, "orders: [h:2]\n");
    runtime().block_on(async { assert_eq!(next(&mut lists).await, Ok(vec![2])) });
}
