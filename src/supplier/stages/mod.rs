//! The built-in stages, one a file.

mod duplicates;
mod hint;
mod metadata;
mod status;
mod weights;
mod zone;

pub use duplicates::Duplicates;
pub use hint::HintStage;
pub use metadata::{MetadataRoute, Source};
pub use status::StatusStage;
pub use weights::{WeightFn, WeightsStage};
pub use zone::ZonePreference;
