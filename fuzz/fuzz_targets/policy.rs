//! A policy file of a repository that no person has read yet.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = paddock_settings::policy_file::parse(text);
});
