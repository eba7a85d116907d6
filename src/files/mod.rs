//! Files that change while they are read: a watcher that sees renames, symlink swaps and network mounts.
//!
//! A file is rarely written in place: editors and deployments write another one and rename it, Kubernetes swaps the
//! symlink of a whole directory. A watch on the file itself sees none of that, since it stays with the old inode. So
//! [`FileWatcher`] watches directories: every one in which something could take the place of the file. The events only
//! say that it is worth looking; what counts is whether the file is another one than before.

mod directories;
mod fingerprint;
mod sight;
mod watcher;

#[cfg(test)]
mod tests;

pub(crate) use fingerprint::Fingerprint;
pub(crate) use watcher::{FileWatcher, WatchSettings};
