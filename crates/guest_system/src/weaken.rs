//! Layers that a test takes away, one by one, to show the attack that each of them stops. Only a build with the feature
//! `weaken` listens to the variable, and no release is such a build: the backend that carries this guest refuses to
//! compile.

/// True if `layer` is among those that PADDOCK_TEST_WITHOUT names, separated by commas.
#[cfg(feature = "weaken")]
pub fn without(layer: &str) -> bool {
    std::env::var("PADDOCK_TEST_WITHOUT").is_ok_and(|names| names.split(',').any(|name| name == layer))
}

/// Every layer is always there.
#[cfg(not(feature = "weaken"))]
#[inline(always)]
pub const fn without(_layer: &str) -> bool {
    false
}
