//! A placeholder in a stream, wherever the stream is cut.

use super::{PLACEHOLDER, Secrets};
use std::sync::Arc;

pub struct Search {
    secrets: Arc<Secrets>,
    /// The last bytes that went by: a placeholder may begin in them.
    tail: Vec<u8>,
}

/// Longer than any placeholder.
const OVERLAP_BYTES: usize = 128;

impl Search {
    pub fn new(secrets: Arc<Secrets>) -> Search {
        Search { secrets, tail: Vec::new() }
    }

    /// The name of the secret whose placeholder ends in `piece`.
    pub fn look(&mut self, piece: &[u8]) -> Option<String> {
        let overlap = &piece[..piece.len().min(OVERLAP_BYTES)];
        self.tail.extend_from_slice(overlap);
        let found = found(&self.secrets, &self.tail).or_else(|| found(&self.secrets, piece));
        if piece.len() >= OVERLAP_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - OVERLAP_BYTES..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(OVERLAP_BYTES));
        }
        found
    }
}

/// Most streams have not even the beginning of one.
fn found(secrets: &Secrets, bytes: &[u8]) -> Option<String> {
    contains(bytes, PLACEHOLDER.as_bytes())
        .then(|| secrets.found_in(bytes))?
        .map(|secret| secret.name.clone())
}

pub fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(bytes, wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tests::secrets;

    #[test]
    fn a_placeholder_is_found_wherever_it_is_cut() {
        let text = format!("GET /?q={} HTTP/1.1\r\n{}", secrets().list[0].placeholder, "x".repeat(500));
        for piece in 1..text.len() {
            let mut search = Search::new(Arc::new(secrets()));
            let mut found = None;
            for part in text.as_bytes().chunks(piece) {
                found = found.or(search.look(part));
            }
            assert_eq!(found.as_deref(), Some("KEY"), "{piece}");
        }
    }

    #[test]
    fn what_only_begins_like_one_is_none() {
        let mut search = Search::new(Arc::new(secrets()));
        assert_eq!(search.look(format!("{PLACEHOLDER}0000000000000000000").as_bytes()), None);
        assert!(search.tail.len() <= OVERLAP_BYTES);
    }
}
