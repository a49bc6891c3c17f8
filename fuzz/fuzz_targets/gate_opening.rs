//! The protocol of a client, read from its first bytes, and its TLS records after them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_gate::fuzz::fuzz_opening(data));
