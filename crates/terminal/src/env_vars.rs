//! Every environment variable that the command reads: no hidden knobs. `PADDOCK_LOG` is read by the server itself,
//! `PADDOCK_RUNSC` by the gVisor backend, `PADDOCK_QEMU`, `PADDOCK_KERNEL`, `PADDOCK_KVM` and
//! `PADDOCK_VM_COPIES` and `PADDOCK_VM_ASLR` by the microVM backend.

/// Where templates, images and the records of sandboxes are kept.
pub const PADDOCK_STATE_DIR: &str = "PADDOCK_STATE_DIR";

/// Parent of the state directory of an ordinary user, when `PADDOCK_STATE_DIR` is unset.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The server that the commands talk to: `http://HOST:PORT`, `https://HOST` or `unix:/PATH`. Without it, the
/// server of the state directory at its socket, started if need be. `serve` listens there, unless flags say otherwise.
pub use paddock_client::PADDOCK_URL;

/// The token that gives the right to ask the server; the owner's unix socket needs none.
pub use paddock_client::PADDOCK_TOKEN;

/// `1`: as if every command that makes sandboxes had --host-certs.
pub const PADDOCK_HOST_CERTS: &str = "PADDOCK_HOST_CERTS";

/// The number of a server among those behind one gateway, for `serve` without --node.
pub const PADDOCK_NODE: &str = "PADDOCK_NODE";

/// Where the server of an ordinary user's usual state directory has its socket, when it is set.
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";

/// The kind of the caller's terminal, passed on to commands that get one.
pub const TERM: &str = "TERM";

/// The caller's home: default place of the state directory, and a workspace that needs more protection.
pub const HOME: &str = "HOME";

/// Set to anything: no colour, even on a terminal.
pub const NO_COLOR: &str = "NO_COLOR";

/// Keys, addresses and names of models, for `paddock agent`.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
pub const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
pub const ANTHROPIC_MODEL: &str = "ANTHROPIC_MODEL";
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
pub const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
pub const OPENAI_MODEL: &str = "OPENAI_MODEL";

/// The text of `paddock --help` about them.
pub const HELP: &str = "\
Environment:
  PADDOCK_STATE_DIR  where templates, images and records are kept
                     [default: /var/lib/paddock for root, else $XDG_STATE_HOME/paddock
                     or ~/.local/state/paddock]
  PADDOCK_URL        the server: http://HOST:PORT, https://HOST or unix:/PATH [default: that of the
                     state directory, started when needed: at run/api.sock in it; of the default
                     directory at /run/paddock/api.sock for root, else at
                     $XDG_RUNTIME_DIR/paddock/api.sock]. `serve` listens there
  PADDOCK_TOKEN      the token for that server; your own socket needs none
  PADDOCK_HOST_CERTS 1: as if commands that make sandboxes had --host-certs
  PADDOCK_NODE       the number of `serve` among servers behind one gateway, 0 to 4095
  PADDOCK_LOG        what `serve` logs, as in paddock_server=debug,info [default: info]
  PADDOCK_RUNSC      the `runsc` of the gVisor backend [default: the first of the path]
  PADDOCK_QEMU       the `qemu-system-x86_64` of the microvm backend [default: the first of the path]
  PADDOCK_KERNEL     the kernel of its VMs, as /boot/vmlinuz-VERSION with its modules in
                     ../lib/modules/VERSION [default: the newest in /boot]
  PADDOCK_KVM        `off`: its VMs are emulated, and KVM is not tried [default: auto]
  PADDOCK_VM_COPIES  `off`: each of its VMs is made anew, and none is a copy of one that runs
  PADDOCK_VM_ASLR    `off`: programs in its emulated VMs have the same addresses each time, and start
                     two to three times as fast; sandboxes list it as a weakness
  ANTHROPIC_API_KEY, OPENAI_API_KEY, and ..._BASE_URL and ..._MODEL of each
                     the model of `agent`; the keys are also what `shield` binds for its agents
  NO_COLOR           set to anything: no colour, even on a terminal

Exit codes:
  0  done
  1  it failed: stderr says why
  2  the arguments make no sense
  `run`, `code`, `exec` and `attach` end with the command's own; their help says more";
