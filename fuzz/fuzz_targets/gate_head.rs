//! The head of a request to the proxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_gate::fuzz::fuzz_head(data));
