//! H: attacks beyond the catalogue, thought up as the code inside.
//!
//! - [`files`]: descriptors reopened, names exchanged, page cache, leases
//! - [`guest`]: the guest by roundabout ways: signals, its files in /proc, its sockets
//! - [`kernel`]: calls and requests that need a second look
//! - [`floods`]: the inside halves of scenarios that use up resources which the whole host, or all processes of a user,
//!   share

mod files;
pub mod floods;
mod guest;
mod kernel;

use crate::attack::Attack;

pub fn attacks() -> impl Iterator<Item = &'static Attack> {
    [files::ATTACKS, guest::ATTACKS, kernel::ATTACKS, super::arch::OWN_ATTACKS].into_iter().flatten()
}
