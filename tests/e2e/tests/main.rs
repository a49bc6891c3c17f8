//! The executable as people and scripts meet it, by theme. One binary, so that it is linked once.

mod bad_input;
mod code;
mod crashes;
mod doctor;
mod exit_codes;
mod explain;
mod images;
mod inside;
mod json;
mod lasting;
mod lasting_copies;
mod lasting_files;
mod lasting_terminal;
mod limits;
mod machine;
mod mounts;
mod network;
mod policy;
mod registry;
mod serve;
mod signals;
mod streams;
mod templates;
mod terminal;
mod workspace;
mod workspace_protection;
