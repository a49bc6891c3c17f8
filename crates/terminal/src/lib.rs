//! The caller of one call: environment and streams, and the text that people read. It knows no command.
//!
//! - [`caller`], [`env_vars`]: the environment and the streams of one call
//! - [`state`]: where things are kept between calls
//! - [`render`]: tables, errors and explanations, safe for a terminal
//! - [`streams`]: the caller's stdin, stdout and stderr without blocking the loop
//! - [`signals`]: signals that the caller may get meanwhile
//! - [`terminal`]: raw mode, size and Ctrl-C of the caller's terminal

pub mod caller;
pub mod env_vars;
pub mod render;
pub mod signals;
pub mod state;
pub mod streams;
pub mod terminal;
