//! Warm start: the last good list of a service in a file, for a process that starts while the registry is out of reach.
//!
//! One file per service, in the format of the file source, written beside and renamed over, so that it is whole or the
//! one before.

#[cfg(feature = "file")]
pub(super) use kept::{load, save};
#[cfg(not(feature = "file"))]
pub(super) use none::{load, save};

#[cfg(feature = "file")]
mod kept {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use parking_lot::Mutex;
    use tokio::runtime::Handle;

    use crate::discovery::FileFormat;
    use crate::discovery::file::format;
    use crate::limit::Limit;
    use crate::{ServiceId, ServiceInstance};

    /// `dir/<service>.json`; what has no place in a file name is written as hex.
    fn path(dir: &Path, service: &ServiceId) -> PathBuf {
        let mut name = String::new();
        for byte in service.as_str().to_ascii_lowercase().bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
                _ => {
                    let _ = write!(name, "%{byte:02x}");
                }
            }
        }
        // A name of dots alone would be a folder.
        if name.starts_with('.') {
            name.insert(0, '%');
        }
        dir.join(name + ".json")
    }

    /// Lists on their way to the disk, by file. Each file has one writer, which always writes the newest list, so that an
    /// older one never ends up over it; nothing is left here once it is written.
    static WAITING: Mutex<BTreeMap<PathBuf, Option<List>>> = Mutex::new(BTreeMap::new());

    /// One disk that is full fails for every service.
    static TOLD: Limit = Limit::faults();

    type List = (ServiceId, Vec<ServiceInstance>);

    pub(crate) fn save(dir: &Path, service: &ServiceId, list: Vec<ServiceInstance>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let path = path(dir, service);
        if WAITING.lock().insert(path.clone(), Some((service.clone(), list))).is_none() {
            runtime.spawn_blocking(move || Writer { path, over: false }.run());
        }
    }

    struct Writer {
        path: PathBuf,
        over: bool,
    }

    impl Drop for Writer {
        fn drop(&mut self) {
            // It never ran, because its runtime went away: the next one must be able to.
            if !self.over {
                WAITING.lock().remove(&self.path);
            }
        }
    }

    impl Writer {
        fn run(mut self) {
            while let Some((service, list)) = self.next() {
                if let Err(error) = write(&self.path, &format::write_document(&service, &list))
                    && let Some(passed) = TOLD.pass()
                {
                    let (path, suppressed) = (self.path.display(), passed.suppressed());
                    tracing::warn!(%service, %path, %error, suppressed, "the list is not kept for a warm start");
                }
            }
        }

        /// The newest list; `None` once there is none, and then another writer may begin.
        fn next(&mut self) -> Option<List> {
            let mut waiting = WAITING.lock();
            let list = waiting.get_mut(&self.path).and_then(Option::take);
            if list.is_none() {
                waiting.remove(&self.path);
                self.over = true;
            }
            list
        }
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The kept list; empty if there is none.
    pub(crate) async fn load(dir: PathBuf, service: ServiceId) -> Vec<ServiceInstance> {
        let path = path(&dir, &service);
        let read = tokio::task::spawn_blocking(move || match fs::read_to_string(&path) {
            Ok(text) => match format::parse(&text, FileFormat::Json) {
                Ok(registry) => registry.list(&service).to_vec(),
                Err(error) => {
                    tracing::warn!(%service, path = %path.display(), ?error, "the list kept for a warm start is broken");
                    Vec::new()
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(%service, path = %path.display(), %error, "the list kept for a warm start is unreadable");
                Vec::new()
            }
        });
        read.await.unwrap_or_default()
    }
}

#[cfg(not(feature = "file"))]
mod none {
    use std::path::{Path, PathBuf};

    use crate::{ServiceId, ServiceInstance};

    pub(crate) fn save(_: &Path, _: &ServiceId, _: Vec<ServiceInstance>) {}

    pub(crate) async fn load(_: PathBuf, service: ServiceId) -> Vec<ServiceInstance> {
        tracing::warn!(%service, "a warm start needs the feature `file`");
        Vec::new()
    }
}
