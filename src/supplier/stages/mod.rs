//! The built-in stages, one a file.

mod api_version;
mod duplicates;
mod hint;
mod metadata;
mod same_instance;
mod shares;
mod status;
mod sticky;
mod subset;
mod weights;
mod zone;

pub use api_version::ApiVersion;
pub use duplicates::Duplicates;
pub use hint::HintStage;
pub use metadata::{MetadataRoute, Source};
pub use same_instance::SameInstance;
pub use status::StatusStage;
pub use sticky::StickySession;
pub use subset::Subset;
pub use weights::{WeightFn, WeightsStage};
pub use zone::ZonePreference;
