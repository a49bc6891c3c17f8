//! Both messages of a SOCKS client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_gate::fuzz::fuzz_socks(data));
