//! Code in a language without contexts: one interpreter for each call.

use crate::FleetError;
use crate::request::invalid;
use paddock_model::api::RunCode;

/// Larger programs belong into a file.
const LARGEST: usize = 4 << 20;

/// The interpreter, and the code as its standard input: no file is left, and the length of arguments does not limit it.
pub struct Plain {
    pub argv: Vec<String>,
    pub stdin: Vec<u8>,
}

/// `None` for a language that has contexts.
pub fn plain(request: &RunCode) -> Result<Option<Plain>, FleetError> {
    if !matches!(request.language.as_deref(), Some("sh" | "shell")) {
        return Ok(None);
    }
    if request.code.len() > LARGEST {
        return Err(invalid(format!("code of {} bytes is more than {LARGEST}", request.code.len()))
            .hint("write it to a file and run that"));
    }
    for (field, given) in [("context", request.context.is_some()), ("stdin", request.stdin.is_some())] {
        if given {
            return Err(invalid(format!("`{field}` cannot be given for sh, which has no contexts"))
                .hint("use bash, which has"));
        }
    }
    let argv = vec!["/bin/sh".into(), "-s".into()];
    Ok(Some(Plain { argv, stdin: request.code.clone().into_bytes() }))
}
