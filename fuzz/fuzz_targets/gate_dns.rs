//! A question to the resolver of the gate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_gate::fuzz::fuzz_dns(data));
