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
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use tokio::runtime::Handle;

    use crate::discovery::FileFormat;
    use crate::discovery::file::format;
    use crate::{ServiceId, ServiceInstance};

    /// `dir/<service>.json`; what has no place in a file name is written as hex.
    fn path(dir: &Path, service: &ServiceId) -> PathBuf {
        let mut name = String::new();
        for byte in service.as_str().to_ascii_lowercase().bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
                _ => name.push_str(&format!("%{byte:02x}")),
            }
        }
        // A name of dots alone would be a folder.
        if name.starts_with('.') {
            name.insert(0, '%');
        }
        dir.join(name + ".json")
    }

    pub(crate) fn save(dir: &Path, service: &ServiceId, list: Vec<ServiceInstance>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (path, service) = (path(dir, service), service.clone());
        runtime.spawn_blocking(move || {
            if let Err(error) = write(&path, &format::write_document(&service, &list)) {
                tracing::warn!(%service, path = %path.display(), %error, "the list is not kept for a warm start");
            }
        });
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&beside, text)?;
        fs::rename(&beside, path)
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

    pub(crate) fn save(_: &Path, service: &ServiceId, _: Vec<ServiceInstance>) {
        tracing::debug!(%service, "a warm start needs the feature `file`");
    }

    pub(crate) async fn load(_: PathBuf, service: ServiceId) -> Vec<ServiceInstance> {
        tracing::warn!(%service, "a warm start needs the feature `file`");
        Vec::new()
    }
}
