//! What a person reads: data on stdout, the rest on stderr. Text that is not Paddock's own is made harmless.

pub mod doctor;
pub mod error;
pub mod escape;
pub mod explain;
pub mod json;
pub mod style;
pub mod table;
pub mod templates;
