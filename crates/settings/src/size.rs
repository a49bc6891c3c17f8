//! The kernel's bounds for the start of a program. They are checked here, so that no sandbox is started in vain.

use paddock_model::format_bytes;
use paddock_protocol::LARGEST_COMMAND;
use std::collections::BTreeMap;

/// MAX_ARG_STRLEN of Linux, its closing NUL included.
const LARGEST_STRING: usize = 128 << 10;
/// The kernel keeps a pointer for each string; this is more than the protocol adds.
const POINTER: usize = 8;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("argument {index} of the command is {} long; the kernel takes at most 128 KiB", format_bytes(*.length as u64))]
    Argument { index: usize, length: usize },
    #[error("environment variable `{}` is {} long; the kernel takes at most 128 KiB", .name.escape_debug(), format_bytes(*.length as u64))]
    Variable { name: String, length: usize },
    #[error("the command and its environment are {} KiB long together; the kernel takes at most {} KiB", .0.div_ceil(1024), LARGEST_COMMAND / 1024)]
    Total(usize),
    #[error("argument {0} of the command holds a NUL")]
    Nul(usize),
    #[error("the command's name is empty")]
    EmptyCommand,
}

impl SizeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SizeError::Argument { .. } | SizeError::Variable { .. } | SizeError::Total(_) => {
                Some("pass large data on standard input or in a file".to_string())
            }
            SizeError::Nul(_) | SizeError::EmptyCommand => None,
        }
    }
}

pub fn check(command: &[String], env: &BTreeMap<String, String>) -> Result<(), SizeError> {
    let mut total = 0;
    for (index, argument) in command.iter().enumerate() {
        if argument.contains('\0') {
            return Err(SizeError::Nul(index));
        }
        let length = argument.len() + 1;
        if length > LARGEST_STRING {
            return Err(SizeError::Argument { index, length });
        }
        total += length + POINTER;
    }
    if command.first().is_some_and(String::is_empty) {
        return Err(SizeError::EmptyCommand);
    }
    for (name, value) in env {
        let length = name.len() + value.len() + 2;
        if length > LARGEST_STRING {
            let name = name.chars().take(80).collect();
            return Err(SizeError::Variable { name, length });
        }
        total += length + POINTER;
    }
    if total > LARGEST_COMMAND { Err(SizeError::Total(total)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(command: &[String], env: BTreeMap<String, String>) -> String {
        check(command, &env).unwrap_err().to_string()
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused_before_the_start() {
        let huge = "x".repeat(LARGEST_STRING);
        assert_eq!(
            refusal(&["a".into(), huge.clone()], BTreeMap::new()),
            "argument 1 of the command is 128 KiB long; the kernel takes at most 128 KiB"
        );
        assert!(
            refusal(&[], [("BIG".into(), huge.clone())].into())
                .starts_with("environment variable `BIG` is 128 KiB")
        );
        let many = vec!["x".repeat(100 << 10); 21];
        assert_eq!(
            refusal(&many, BTreeMap::new()),
            "the command and its environment are 2101 KiB long together; the kernel takes at most 2040 KiB"
        );
        assert!(check(&vec!["x".into(); 220_000], &BTreeMap::new()).is_err());
        // One that fills the bound to its last byte, and one byte more in the environment.
        let fills = vec!["x".repeat((64 << 10) - 1 - POINTER); LARGEST_COMMAND >> 16];
        let rest = LARGEST_COMMAND % (64 << 10) - 2 - POINTER;
        for more in [0, 1] {
            let env = [("V".to_string(), "x".repeat(rest - 1 + more))].into();
            assert_eq!(check(&fills, &env).is_ok(), more == 0);
        }
        assert_eq!(
            refusal(&["a".into(), "\0".into()], BTreeMap::new()),
            "argument 1 of the command holds a NUL"
        );
        assert_eq!(refusal(&["".into()], BTreeMap::new()), "the command's name is empty");
        let just_fits = "x".repeat(LARGEST_STRING - 1);
        assert_eq!(check(&[just_fits], &BTreeMap::new()), Ok(()));
    }
}
