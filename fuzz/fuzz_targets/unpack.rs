//! A layer or a root archive from anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_images::fuzz::fuzz_unpack(data));
