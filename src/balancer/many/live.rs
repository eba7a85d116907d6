//! Properties that change while balancers run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::Inner;
use super::map::Entry;
use super::why::differences;
use crate::BuildError;
use crate::config::{LoadBalancerProperties, Properties};
use crate::observe::ChangeKind;

/// The tasks that follow properties, and the file behind them.
pub(super) fn follow(inner: &Arc<Inner>, runtime: &Handle, file: Option<PathBuf>) -> Vec<JoinHandle<()>> {
    let changes = inner.recipe.live.subscribe();
    let properties = runtime.spawn(apply_changes(Arc::downgrade(inner), changes));
    #[cfg(feature = "file")]
    let file =
        file.map(|path| runtime.spawn(follow_file(Arc::downgrade(inner), inner.recipe.live.clone(), path)));
    #[cfg(not(feature = "file"))]
    let file = file.map(|_| runtime.spawn(std::future::ready(())));
    std::iter::once(properties).chain(file).collect()
}

async fn apply_changes(inner: Weak<Inner>, mut changes: tokio::sync::watch::Receiver<Arc<Properties>>) {
    loop {
        let properties = Arc::clone(&changes.borrow_and_update());
        let Some(strong) = inner.upgrade() else { return };
        // The first time nothing changed, unless somebody was faster than this task.
        if strong.recipe.in_force.load().properties != properties {
            // The code that shapes the chains is the user's: a panic in it must not end the changes to come.
            match catch_unwind(AssertUnwindSafe(|| strong.apply(properties))) {
                Ok(Ok(services)) => tracing::info!(services, "changed properties are in force"),
                Ok(Err(error)) => {
                    tracing::error!(%error, "changed properties are not applied: the old ones stay in force");
                    strong.refused(&error.to_string());
                }
                Err(panic) => {
                    let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
                    let panic = texts.0.or(texts.1.map(String::as_str)).unwrap_or_default();
                    tracing::error!(
                        panic,
                        "the code of a service panicked when changed properties were applied"
                    );
                }
            }
        }
        drop(strong);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

impl Inner {
    /// Everything is built once before anything is changed; how many services changed.
    fn apply(&self, properties: Arc<Properties>) -> Result<usize, BuildError> {
        self.recipe.check(&properties)?;
        for entry in self.map.entries() {
            let effective = properties.effective(entry.id.as_str());
            if effective.enabled {
                self.recipe.chain(&entry.id, &effective).build()?;
            }
        }
        let new = Arc::new(self.recipe.next(properties));
        self.recipe.adopt(Arc::clone(&new));
        // A service that is made from here on looks at `in_force` again after it is in the map.
        let mut entries = self.map.entries();
        // Those that are named now come first, so that one that no longer is does not push them out.
        entries.sort_by_key(|entry| !new.is_named(&entry.id));
        Ok(entries.into_iter().filter(|entry| self.settle(entry)).count())
    }

    /// Takes a service to the properties and overrides that count now; whether its properties differ by that. State and
    /// rotations stay.
    pub(super) fn settle(&self, entry: &Arc<Entry>) -> bool {
        // Held to the end: of two at once the later one finds what counts by then.
        let mut applied = entry.applied.lock();
        let now = self.recipe.in_force.load_full();
        self.map.keep(entry, now.is_named(&entry.id));
        let (effective, overrides) = self.effective(&now.properties, entry.id.as_str());
        let effective = effective.with_overrides([]);
        entry.off.store(!effective.enabled, Ordering::Relaxed);
        let changed = *applied != effective;
        if changed {
            self.reapply(entry, &applied, &effective);
            *applied = effective;
        }
        entry.balancer.core.driver.publish.change_overrides(|all| *all = overrides);
        changed
    }

    /// Gives a service another chain and policy, and notes it.
    fn reapply(
        &self,
        entry: &Arc<Entry>,
        before: &LoadBalancerProperties,
        effective: &LoadBalancerProperties,
    ) {
        let service = entry.balancer.service_state();
        if !effective.enabled {
            service.note(ChangeKind::ConfigApplied, None, "balancing is off (enabled: false)");
            return;
        }
        match self.recipe.chain(&entry.id, effective).build() {
            Ok(supplier) => {
                let policy = self.recipe.policy(&entry.id, effective);
                let calls = self.recipe.calls(&entry.id, effective);
                entry.balancer.reconfigure(supplier, policy, effective.allow_downgrade, calls);
                service.note(ChangeKind::ConfigApplied, None, differences(before, effective));
            }
            // It was built a moment ago; a chain that the code shapes may say otherwise now.
            Err(error) => {
                tracing::error!(service = %entry.id, %error, "changed properties are not applied to a service");
                service.note(ChangeKind::ConfigRefused, None, error.to_string());
            }
        }
    }
}

#[cfg(feature = "file")]
async fn follow_file(inner: Weak<Inner>, live: crate::config::LiveProperties, path: PathBuf) {
    use crate::files::{FileWatcher, WatchSettings};
    use futures_util::future::select_all;

    let mut watchers: Vec<(PathBuf, FileWatcher)> = Vec::new();
    let mut wanted = vec![path.clone()];
    loop {
        // A file that is watched from here on is read after that: a change in between would be missed.
        watchers.retain(|(watched, _)| wanted.contains(watched));
        for path in &wanted {
            if watchers.iter().all(|(watched, _)| watched != path) {
                let Ok(watcher) = FileWatcher::start(path, WatchSettings::default()).await else { return };
                watchers.push((path.clone(), watcher));
            }
        }
        let (reloaded, file) = (live.clone(), path.clone());
        // Reading is off the async workers. A failure is logged there, and what is in force stays.
        let paths = tokio::task::spawn_blocking(move || reloaded.reload_paths(&file)).await;
        // The file itself may name other profiles now, and each has a file, which may come into being.
        let (paths, error) = paths.unwrap_or_default();
        if let (Some(error), Some(inner)) = (error, inner.upgrade()) {
            inner.refused(&error.to_string());
        }
        if let Some(paths) = paths.filter(|paths| *paths != wanted) {
            wanted = paths;
            continue;
        }
        select_all(watchers.iter_mut().map(|(_, watcher)| Box::pin(watcher.changed()))).await;
    }
}
