//! Nothing runs here: the tests of this crate hold the workspace to the design.
