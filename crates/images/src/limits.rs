/// How much an image may make the host store. The limits hold for all layers of one image together.
#[derive(Debug, Clone)]
pub struct UnpackLimits {
    pub layers: usize,
    /// Files, directories and links, including the parents that an archive leaves out.
    pub entries: u64,
    /// Bytes after decompression, headers and padding included.
    pub bytes: u64,
    /// How many times larger than its compressed form a layer may be, once it is over `ratio_floor`.
    pub ratio: u64,
    /// Below this many bytes no ratio is too high: a small archive of zeros is ordinary.
    pub ratio_floor: u64,
    /// Bytes of one manifest, one index or one configuration.
    pub document_bytes: u64,
    /// Bytes that may describe one entry: its header, long names and extended attributes.
    pub entry_metadata_bytes: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            layers: 512,
            entries: 4_000_000,
            bytes: 64 << 30,
            ratio: 1000,
            ratio_floor: 64 << 20,
            document_bytes: 4 << 20,
            entry_metadata_bytes: 1 << 20,
        }
    }
}
