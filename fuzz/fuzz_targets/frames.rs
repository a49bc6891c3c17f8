//! Bytes that a hostile guest, or a hostile host, could send.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_protocol::fuzz_frames(data));
