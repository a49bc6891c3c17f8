//! Settings and an index of git that hostile code wrote in an earlier run.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paddock_engine::fuzz_git_settings(data));
