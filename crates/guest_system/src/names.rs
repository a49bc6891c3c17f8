//! Names beside those of the work.

/// The other name of a file of the work that stands where one of the guest has to be.
pub fn name_aside(name: &[u8], number: usize) -> Vec<u8> {
    [name, format!(".moved-aside-{number}").as_bytes()].concat()
}
