//! The build files that come with Paddock, so that an installed executable needs no repository.

pub const NAMES: [&str; 12] = [
    "agent",
    "base",
    "bun",
    "claude",
    "code-interpreter",
    "code-interpreter-v1",
    "codex",
    "deno",
    "go",
    "minimal",
    "opencode",
    "ruby",
];

pub fn text(name: &str) -> Option<&'static str> {
    match name {
        "agent" => Some(include_str!("../../../templates/agent.toml")),
        "base" => Some(include_str!("../../../templates/base.toml")),
        "bun" => Some(include_str!("../../../templates/bun.toml")),
        "claude" => Some(include_str!("../../../templates/claude.toml")),
        "code-interpreter" => Some(include_str!("../../../templates/code-interpreter.toml")),
        "code-interpreter-v1" => Some(include_str!("../../../templates/code-interpreter-v1.toml")),
        "codex" => Some(include_str!("../../../templates/codex.toml")),
        "deno" => Some(include_str!("../../../templates/deno.toml")),
        "go" => Some(include_str!("../../../templates/go.toml")),
        "minimal" => Some(include_str!("../../../templates/minimal.toml")),
        "opencode" => Some(include_str!("../../../templates/opencode.toml")),
        "ruby" => Some(include_str!("../../../templates/ruby.toml")),
        _ => None,
    }
}
