//! A form of files of E2B's clients.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_server::e2b_fuzz::fuzz_e2b_form(data));
