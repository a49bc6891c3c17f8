//! A message or a body of E2B's clients.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| paddock_server::e2b_fuzz::fuzz_e2b_bodies(text));
