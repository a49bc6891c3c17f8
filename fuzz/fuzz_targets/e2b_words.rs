//! A body, a query, a header, a time or a path of E2B's clients.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| paddock_server::e2b_fuzz::fuzz_e2b_words(text));
