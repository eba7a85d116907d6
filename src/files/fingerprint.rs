use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// What tells two states of a file apart without reading it.
///
/// The times are read from the file and only compared for equality; no clock is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    file: Option<Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    len: u64,
    modified: Option<SystemTime>,
    /// Device, inode, and seconds and nanoseconds of the last change, of rights too; empty where there are none.
    node: [i128; 4],
}

impl Fingerprint {
    /// Of the file at `path`, through its symlinks; one that is missing or unreadable has a fingerprint too. Blocks.
    pub(crate) fn of(path: &Path) -> Self {
        Self { file: fs::metadata(path).ok().map(|metadata| Seen::of(&metadata)) }
    }

    pub(crate) fn of_open(file: &fs::File) -> Self {
        Self { file: file.metadata().ok().map(|metadata| Seen::of(&metadata)) }
    }
}

impl Seen {
    fn of(metadata: &fs::Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok(), node: node(metadata) }
    }
}

#[cfg(unix)]
fn node(metadata: &fs::Metadata) -> [i128; 4] {
    use std::os::unix::fs::MetadataExt;
    [metadata.dev().into(), metadata.ino().into(), metadata.ctime().into(), metadata.ctime_nsec().into()]
}

#[cfg(not(unix))]
fn node(_: &fs::Metadata) -> [i128; 4] {
    [0; 4]
}
