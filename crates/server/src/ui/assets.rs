//! The files of the dashboard, compressed by the build script.

use flate2::read::GzDecoder;
use std::io::{self, Read};

pub struct Asset {
    pub name: &'static str,
    pub gzip: &'static [u8],
}

const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }

    /// For clients that do not decompress.
    pub fn plain(&self) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        GzDecoder::new(self.gzip).read_to_end(&mut plain)?;
        Ok(plain)
    }
}
