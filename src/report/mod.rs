//! What an instance says of its own load: [`LoadReport`].

mod load_report;

pub use load_report::LoadReport;
