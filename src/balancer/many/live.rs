//! Properties that change while balancers run.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::Inner;
use crate::config::Properties;

/// The tasks that follow properties, and the file behind them.
pub(super) fn follow(inner: &Arc<Inner>, runtime: &Handle, file: Option<PathBuf>) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![runtime.spawn(apply_changes(Arc::downgrade(inner), inner.recipe.live.subscribe()))];
    #[cfg(feature = "file")]
    if let Some(path) = file {
        tasks.push(runtime.spawn(follow_file(inner.recipe.live.clone(), path)));
    }
    #[cfg(not(feature = "file"))]
    drop(file);
    tasks
}

async fn apply_changes(inner: Weak<Inner>, mut changes: tokio::sync::watch::Receiver<Arc<Properties>>) {
    while changes.changed().await.is_ok() {
        let properties = Arc::clone(&changes.borrow_and_update());
        let Some(inner) = inner.upgrade() else { return };
        match inner.apply(&properties) {
            Ok(services) => tracing::info!(services, "changed properties are in force"),
            Err(error) => {
                tracing::error!(%error, "changed properties are not applied: the old ones stay in force")
            }
        }
    }
}

impl Inner {
    /// Everything is built before anything is changed.
    fn apply(&self, properties: &Properties) -> Result<usize, crate::BuildError> {
        self.recipe.check(properties)?;
        let mut built = Vec::new();
        for entry in self.map.entries() {
            let effective = properties.effective(entry.id.as_str());
            let supplier = self.recipe.chain(&entry.id, &effective).build()?;
            let policy = self.recipe.policy(&entry.id, &effective);
            built.push((entry, supplier, policy, effective.allow_downgrade));
        }
        let services = built.len();
        for (entry, supplier, policy, allow_downgrade) in built {
            entry.balancer.reconfigure(supplier, policy, allow_downgrade);
        }
        Ok(services)
    }
}

#[cfg(feature = "file")]
async fn follow_file(live: crate::config::LiveProperties, path: PathBuf) {
    use crate::files::{FileWatcher, WatchSettings};

    let Ok(mut watcher) = FileWatcher::start(&path, WatchSettings::default()).await else { return };
    loop {
        let (live, path) = (live.clone(), path.clone());
        // Reading is off the async workers. A failure is logged there, and what is in force stays.
        let _ = tokio::task::spawn_blocking(move || live.reload_file(path)).await;
        watcher.changed().await;
    }
}
