//! Runs one attack, or a batch of them, where it stands: inside a fence, or outside as the control.

fn main() -> std::process::ExitCode {
    paddock_conformance::probe::main()
}
