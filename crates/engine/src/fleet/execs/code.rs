//! Code in a language, rather than a command.

use crate::fleet::FleetError;
use crate::fleet::request::invalid;
use paddock_model::api::RunCode;

/// Larger programs belong into a file.
const LARGEST: usize = 4 << 20;

/// The interpreter, and the code as its standard input: no file is left, and no length of arguments limits it.
pub fn command(request: &RunCode) -> Result<(Vec<String>, Vec<u8>), FleetError> {
    if request.code.len() > LARGEST {
        return Err(invalid(format!("code of {} bytes is more than {LARGEST}", request.code.len()))
            .hint("write it to a file and run that"));
    }
    let language = request.language.as_deref().unwrap_or("python");
    let interpreter: &[&str] = match language {
        "python" | "python3" => &["python3", "-u", "-"],
        "javascript" | "js" | "node" => &["node", "-"],
        "bash" => &["bash", "-s"],
        "sh" | "shell" => &["/bin/sh", "-s"],
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(invalid(format!("language `{}` is not known", shown.escape_debug()))
                .hint("known are python, javascript, bash and sh"));
        }
    };
    Ok((interpreter.iter().map(|part| part.to_string()).collect(), request.code.clone().into_bytes()))
}
