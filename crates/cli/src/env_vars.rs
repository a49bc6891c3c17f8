//! Every environment variable that the command reads: no hidden knobs.

/// Where templates, images and the records of sandboxes are kept.
pub const PADDOCK_STATE_DIR: &str = "PADDOCK_STATE_DIR";

/// Parent of the state directory of an ordinary user, when `PADDOCK_STATE_DIR` is unset.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The caller's home: default place of the state directory, and a workspace that needs more protection.
pub const HOME: &str = "HOME";

/// Set to anything: no colour, even on a terminal.
pub const NO_COLOR: &str = "NO_COLOR";

/// What `paddock --help` says about them.
pub const HELP: &str = "\
Environment:
  PADDOCK_STATE_DIR  where templates, images and records are kept
                     [default: /var/lib/paddock for root, else $XDG_STATE_HOME/paddock
                     or ~/.local/state/paddock]
  NO_COLOR           set to anything: no colour, even on a terminal";
