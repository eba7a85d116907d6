use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// What must be watched to see every change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The directory of the file, those of each symlink on the way to it, and the nearest one that exists.
    pub(super) directories: Vec<PathBuf>,
    /// The file and each symlink on the way: an event at one of these is about the file.
    pub(super) names: Vec<PathBuf>,
}

/// As many symlinks as Linux follows before it takes them for a circle.
const SYMLINKS: usize = 40;

impl Places {
    /// Walks along an absolute path and through its symlinks; blocks on the file system.
    pub(super) fn of(path: &Path) -> Self {
        let mut places = Self::default();
        let mut rest: VecDeque<OsString> = VecDeque::new();
        let mut here = PathBuf::new();
        push_front(&mut rest, path);
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::ParentDir) => {
                    here.pop();
                    continue;
                }
                Some(Component::Normal(_)) => {}
                Some(_) => {
                    here.push(&part);
                    continue;
                }
                None => continue,
            }
            let next = here.join(&part);
            let target = std::fs::read_link(&next).ok();
            if let Some(target) = target.filter(|_| links < SYMLINKS) {
                links += 1;
                places.add(&here, next);
                if target.is_absolute() {
                    here = PathBuf::new();
                }
                push_front(&mut rest, &target);
            } else if rest.is_empty() || !next.is_dir() {
                // The file, or the place where its path breaks off: what appears there is the next thing to see.
                places.add(&here, next);
                break;
            } else {
                here = next;
            }
        }
        places
    }

    fn add(&mut self, directory: &Path, name: PathBuf) {
        if !self.directories.iter().any(|known| known == directory) {
            self.directories.push(directory.to_owned());
        }
        self.names.push(name);
    }
}

fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        if part != Component::CurDir {
            rest.push_front(part.as_os_str().to_owned());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("mount/..v1")).unwrap();
        fs::write(root.join("mount/..v1/registry.yml"), "x").unwrap();
        symlink("..v1", root.join("mount/..data")).unwrap();
        symlink("..data/registry.yml", root.join("mount/registry.yml")).unwrap();
        symlink(root.join("mount"), root.join("current")).unwrap();
        let places = Places::of(&root.join("current/./registry.yml"));
        assert_eq!(places.directories, [root.clone(), root.join("mount"), root.join("mount/..v1")]);
        let names = ["current", "mount/registry.yml", "mount/..data", "mount/..v1/registry.yml"];
        assert_eq!(places.names, names.map(|name| root.join(name)));
    }

    #[test]
    fn a_path_that_breaks_off_is_watched_where_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let places = Places::of(&root.join("a/b/registry.yml"));
        assert_eq!((places.directories, places.names), (vec![root.clone()], vec![root.join("a")]));
        // A circle ends.
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(Places::of(&root.join("loop/x")).directories, [root]);
    }
}
