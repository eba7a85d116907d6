use crate::{Request, RequestView};

/// The keys of requests, by chance among so many.
#[derive(Debug)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key(String);

impl RequestView for Key {
    fn attribute(&self, name: &str) -> Option<&str> {
        (name == super::Simulation::KEY).then_some(&self.0)
    }
}

impl Keys {
    pub(super) fn new(n: usize) -> Self {
        Self((0..n).map(|key| Key(format!("key-{key}"))).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A request with the key at `at`, or one without a key.
    pub(super) fn request(&self, at: usize) -> Request<'_> {
        self.0.get(at).map_or(Request::EMPTY, |key| Request::of(key))
    }
}
