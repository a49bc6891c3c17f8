//! A policy file of a repository that no person has read yet.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = paddock_engine::policy_file::parse(text);
});
