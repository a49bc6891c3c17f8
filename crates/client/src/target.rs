//! A path and a query, built so that nothing that the caller typed can become syntax.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Debug, Clone)]
pub struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// A path of the API's own.
    pub fn new(path: &'static str) -> Target {
        Target { text: path.to_string(), has_query: false }
    }

    pub fn sandbox(id: &str) -> Target {
        Target::new("/v1/sandboxes").part(id)
    }

    pub fn exec(sandbox: &str, exec: u32) -> Target {
        Target::sandbox(sandbox).part("execs").part(&exec.to_string())
    }

    /// One more part of the path, with any characters.
    pub fn part(mut self, part: &str) -> Target {
        self.text.push('/');
        self.text.extend(utf8_percent_encode(part, PLAIN));
        self
    }

    pub fn query(mut self, name: &'static str, value: &str) -> Target {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        self.text.extend(utf8_percent_encode(value, PLAIN));
        self
    }

    pub fn query_if(self, name: &'static str, value: Option<&str>) -> Target {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_one_part_or_one_value() {
        let target = Target::sandbox("../a?b#c d").part("files").query("path", "/ä&x=1").query("limit", "2");
        assert_eq!(target.as_str(), "/v1/sandboxes/..%2Fa%3Fb%23c%20d/files?path=%2F%C3%A4%26x%3D1&limit=2");
    }
}
