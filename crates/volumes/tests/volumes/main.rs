//! Volumes on a real directory, and on a real S3 server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever is missing shall fail it"
)]

mod crash;
mod damage;
mod hostile;
mod lease;
mod place;
mod s3;
mod tree;
