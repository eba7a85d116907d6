use std::hash::{Hash, Hasher};

use crate::ServiceInstance;

/// An instance as a key: by its identity alone.
#[derive(Clone, Debug)]
pub(super) struct ByIdentity(pub(super) ServiceInstance);

impl PartialEq for ByIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_identity(&other.0)
    }
}

impl Eq for ByIdentity {}

impl Hash for ByIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.identity_hash());
    }
}
