//! Forms with files (`multipart/form-data`), read piece by piece: nothing is held but a piece and the head of a part.
//!
//! The crate multer (3.1) is not used: it takes in everything that has arrived before it gives out the first piece, so a client that
//! sends faster than a sandbox writes would fill the server's memory, and only the length of the whole form bounds it.

use super::errors::{Refusal, Result};
use crate::errors::shorten;
use crate::extract::Incoming;
use bytes::{Bytes, BytesMut};

/// Of one part: names of files are no longer than paths.
const LONGEST_HEAD: usize = 16 << 10;
const LONGEST_BOUNDARY: usize = 70;

pub struct Multipart {
    body: Incoming,
    read: BytesMut,
    /// The line that separates parts, with the line break before it.
    delimiter: Vec<u8>,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a delimiter: in a part, or before the first one.
    Within,
    /// Right behind one.
    Behind,
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub file_name: Option<String>,
}

/// The boundary that a content type names, where it is a form.
pub fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let (_, boundary) = self::parameters(parameters).into_iter().find(|(name, _)| name == "boundary")?;
    (1..=LONGEST_BOUNDARY).contains(&boundary.len()).then_some(boundary)
}

impl Multipart {
    pub fn new(body: Incoming, boundary: &str) -> Multipart {
        // The first delimiter needs no line break before it: one is put there.
        let read = BytesMut::from(&b"\r\n"[..]);
        Multipart { body, read, delimiter: format!("\r\n--{boundary}").into_bytes(), place: Place::Within }
    }

    /// The head of the next part; what is left of the one before is passed over.
    pub async fn next(&mut self) -> Result<Option<Part>> {
        while self.piece().await?.is_some() {}
        if self.place == Place::End {
            return Ok(None);
        }
        let head = loop {
            if self.read.starts_with(b"--") {
                self.place = Place::End;
                // The rest belongs to no part. It is read all the same, because a body that was read whole leaves the connection usable.
                while self.body.next().await?.is_some() {}
                return Ok(None);
            }
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break self.read.split_to(end + 4);
            }
            if self.read.len() > LONGEST_HEAD {
                return Err(Refusal::invalid(format!(
                    "the head of a part of the form is longer than {LONGEST_HEAD} bytes"
                )));
            }
            self.more().await?;
        };
        self.place = Place::Within;
        part(&head).map(Some)
    }

    /// Bytes of the part; `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.place != Place::Within {
                return Ok(None);
            }
            if let Some(at) = find(&self.read, &self.delimiter) {
                let piece = self.read.split_to(at).freeze();
                if piece.is_empty() {
                    let _ = self.read.split_to(self.delimiter.len());
                    self.place = Place::Behind;
                    return Ok(None);
                }
                return Ok(Some(piece));
            }
            // The end of what was read may be the beginning of a delimiter.
            let sure = self.read.len().saturating_sub(self.delimiter.len() - 1);
            if sure > 0 {
                return Ok(Some(self.read.split_to(sure).freeze()));
            }
            self.more().await?;
        }
    }

    /// For a form that was refused: the client shall read why.
    pub async fn pass_over(&mut self) {
        self.body.pass_over().await;
    }

    async fn more(&mut self) -> Result<()> {
        match self.body.next().await? {
            Some(bytes) => self.read.extend_from_slice(&bytes),
            None => return Err(Refusal::invalid("the form ended before its last boundary")),
        }
        Ok(())
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == first) {
        let at = from + at;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn part(head: &[u8]) -> Result<Part> {
    let text = std::str::from_utf8(head)
        .map_err(|_| Refusal::invalid("the head of a part of the form is not UTF-8"))?;
    let described = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let Some((_, rest)) = described.and_then(|value| value.split_once(';')) else {
        return Err(Refusal::invalid("a part of the form has no Content-Disposition with a name"));
    };
    let found = parameters(rest);
    let value = |wanted: &str| found.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let name = value("name").ok_or_else(|| {
        Refusal::invalid(format!("a part of the form has no name: {:?}", shorten(rest.trim())))
    })?;
    Ok(Part { name, file_name: value("filename").map(|name| unescaped(&name)) })
}

/// `name=value; name="value"`, with `\` before a character that is meant itself.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([';', ' ', '\t']);
    while let Some((name, after)) = rest.split_once('=') {
        let mut value = String::new();
        let mut used = 0;
        if let Some(quoted) = after.strip_prefix('"') {
            let mut letters = quoted.char_indices();
            used = after.len();
            while let Some((at, letter)) = letters.next() {
                match letter {
                    '"' => {
                        used = at + 2;
                        break;
                    }
                    '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
                    letter => value.push(letter),
                }
            }
        } else {
            used += after.find(';').unwrap_or(after.len());
            value.push_str(after[..used].trim());
        }
        found.push((name.trim().to_ascii_lowercase(), value));
        rest = after[used..].trim_start_matches([';', ' ', '\t']);
    }
    found
}

/// Browsers and their like write quotes and line breaks of a name so.
fn unescaped(name: &str) -> String {
    name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use std::time::Duration;

    fn form(body: &[u8], size: usize) -> Multipart {
        let pieces: Vec<_> =
            body.chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        Multipart::new(Incoming::new(body, Duration::from_secs(1)), "XyZ")
    }

    async fn all(mut form: Multipart) -> Result<Vec<(Part, Vec<u8>)>> {
        let mut found = Vec::new();
        while let Some(part) = form.next().await? {
            let mut content = Vec::new();
            while let Some(piece) = form.piece().await? {
                content.extend_from_slice(&piece);
            }
            found.push((part, content));
        }
        Ok(found)
    }

    const FORM: &[u8] = b"--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/a \\\"b%22\"\r\nContent-Type: x/y\r\n\r\none\r\n--Xy\r\n\r\n--XyZ\r\ncontent-disposition: form-data; name=file; filename=empty\r\n\r\n\r\n--XyZ--\r\nrest";

    #[tokio::test]
    async fn a_form_is_the_same_in_any_pieces() {
        for size in 1..FORM.len() {
            let found = all(form(FORM, size)).await.expect("valid");
            assert_eq!(found.len(), 2, "in pieces of {size}");
            assert_eq!(found[0].0, Part { name: "file".into(), file_name: Some("/a \"b\"".into()) });
            assert_eq!(found[0].1, b"one\r\n--Xy\r\n", "in pieces of {size}");
            assert_eq!((found[1].0.file_name.as_deref(), &found[1].1[..]), (Some("empty"), &b""[..]));
        }
    }

    #[tokio::test]
    async fn half_a_form_and_long_heads_are_refused() {
        for length in 0..FORM.len() - 12 {
            assert!(all(form(&FORM[..length], 7)).await.is_err(), "{length}");
        }
        let long = [b"--XyZ\r\nX: ", "x".repeat(LONGEST_HEAD + 9).as_bytes(), b"\r\n\r\n"].concat();
        assert!(all(form(&long, 1000)).await.is_err());
        assert!(all(form(b"--XyZ\r\nX: y\r\n\r\n\r\n--XyZ--", 7)).await.is_err());
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        assert_eq!(boundary("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(boundary("Multipart/Form-Data; charset=x; boundary=\"a b\"").as_deref(), Some("a b"));
        for bad in [
            "text/plain",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=x",
        ] {
            assert_eq!(boundary(bad), None, "{bad}");
        }
        assert_eq!(boundary(&format!("multipart/form-data; boundary={}", "x".repeat(71))), None);
    }
}
