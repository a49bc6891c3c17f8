//! Ctrl-P Ctrl-Q, as Docker has it.

const CTRL_P: u8 = 16;
const CTRL_Q: u8 = 17;

/// Looks at every key; Ctrl-P is held back until the next key tells its meaning.
#[derive(Debug, Default)]
pub struct DetachKeys {
    held: bool,
}

impl DetachKeys {
    /// The keys for the command, and true if the caller leaves.
    pub fn filter(&mut self, keys: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(keys.len() + 1);
        for key in keys {
            match (std::mem::take(&mut self.held), *key) {
                (true, CTRL_Q) => return (passed, true),
                (true, CTRL_P) => {
                    passed.push(CTRL_P);
                    self.held = true;
                }
                (true, other) => passed.extend([CTRL_P, other]),
                (false, CTRL_P) => self.held = true,
                (false, other) => passed.push(other),
            }
        }
        (passed, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_keys_in_a_row_detach() {
        let mut keys = DetachKeys::default();
        assert_eq!(keys.filter(b"ls\x10"), (b"ls".to_vec(), false));
        assert_eq!(
            keys.filter(b"x"),
            (b"\x10x".to_vec(), false),
            "a shell's own Ctrl-P arrives late, not never"
        );
        assert_eq!(keys.filter(b"\x10\x10\x11rest"), (b"\x10".to_vec(), true));
        assert_eq!(keys.filter(b"\x11"), (b"\x11".to_vec(), false));
    }
}
