//! The image store, from outside: real archives, a real registry on loopback, and hostile input of every kind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archives;
mod concurrency;
mod hostile;
mod layers;
mod limits;
mod registry;
mod support;
