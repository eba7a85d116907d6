//! What an instance says of its own load: [`LoadReport`].

#[cfg(feature = "orca")]
mod binary;
mod headers;
mod load_report;
mod text;

pub use headers::InvalidLoadReport;
pub use load_report::LoadReport;
