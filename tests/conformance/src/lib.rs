//! The suite of `paddock verify`, as a test; its own are in `tests/`.
