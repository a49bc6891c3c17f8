//! Packs the dashboard that `make web` built, `web/dist`, for the executable. It needs no Node.

#![allow(clippy::expect_used, reason = "a build that cannot go on is to stop")]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let place = Path::new("../../web/dist");
    println!("cargo:rerun-if-changed={}", place.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut files = Vec::new();
    for directory in ["", "assets"] {
        let entries =
            std::fs::read_dir(place.join(directory)).expect("web/dist is in the tree; `make web` makes it");
        for entry in entries {
            let path = entry.expect("an entry of web/dist").path();
            let served = path
                .extension()
                .is_some_and(|end| ["html", "js", "css", "svg", "txt"].iter().any(|known| end == *known));
            if served {
                println!("cargo:rerun-if-changed={}", path.display());
                files.push(path);
            }
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (number, path) in files.iter().enumerate() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&std::fs::read(path).expect("a file of web/dist")).expect("memory");
        let packed_path = out.join(format!("dashboard-{number}.gz"));
        std::fs::write(&packed_path, packed.finish().expect("memory")).expect("OUT_DIR can be written");
        let name = path.strip_prefix(place).expect("below it");
        writeln!(list, "    Asset {{ name: {name:?}, gzip: include_bytes!({packed_path:?}) }},")
            .expect("memory");
    }
    list.push_str("]\n");
    std::fs::write(out.join("dashboard.rs"), list).expect("OUT_DIR can be written");
}
