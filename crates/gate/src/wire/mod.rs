//! Parsers for the bytes of a sandbox. A hostile program inside may choose every byte and every length: each parser
//! takes a slice, keeps nothing, and is bounded before it looks.
//!
//! - `dns`: one question, one answer
//! - `hello`: the name in a TLS ClientHello
//! - `opening`: TLS, HTTP or neither; `records`: a TLS client's records after its first message
//! - `head`: the head of a request to the proxy
//! - `socks`: SOCKS version 5
//! - `host`: a name or an address, as clients write it
//! - `packet`: IP packets, and the few that are answered without a connection

pub mod dns;
pub mod head;
pub mod hello;
pub mod host;
pub mod opening;
pub mod packet;
pub mod records;
pub mod socks;

/// A parser that has not seen enough says so. That is not a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// More bytes may make it whole.
    More,
    /// No further byte will.
    Malformed,
}
