//! The build files that come with Paddock, so that an installed executable needs no repository.

pub const NAMES: [&str; 3] = ["agent", "code-interpreter", "minimal"];

pub fn text(name: &str) -> Option<&'static str> {
    match name {
        "agent" => Some(include_str!("../../../../templates/agent.toml")),
        "code-interpreter" => Some(include_str!("../../../../templates/code-interpreter.toml")),
        "minimal" => Some(include_str!("../../../../templates/minimal.toml")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_shipped_file_is_a_build_file() {
        for name in super::NAMES {
            let file = crate::builds::parse(super::text(name).unwrap());
            assert!(file.is_ok(), "{name}: {:?}", file.err());
        }
        assert!(super::text("other").is_none());
    }
}
