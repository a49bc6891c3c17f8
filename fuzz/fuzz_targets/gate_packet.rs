//! A packet as it comes over the link of a sandbox.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_gate::fuzz::fuzz_packet(data));
