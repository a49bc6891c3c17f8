use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use xz4rust::{XzDecoder, XzNextBlockResult};

/// The most memory that a stream can make its decoder take for its window.
const LARGEST_WINDOW_LOG: u32 = 27;

/// Decompresses by the first bytes: gzip, zstd, xz, or else no compression.
pub fn decoder<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let start = input.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(input)));
    }
    // The second magic number is a skippable frame, with which some tools begin.
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || start.starts_with(&[0x50, 0x2a, 0x4d, 0x18]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        decoder.window_log_max(LARGEST_WINDOW_LOG)?;
        return Ok(Box::new(decoder));
    }
    if start.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        let decoder = XzDecoder::in_heap_with_alloc_dict_size(1 << 20, 1 << LARGEST_WINDOW_LOG);
        return Ok(Box::new(Xz { input, decoder, at_start: true }));
    }
    Ok(Box::new(input))
}

/// One or more xz streams, one after the other.
struct Xz<R> {
    input: R,
    decoder: Box<XzDecoder<'static>>,
    at_start: bool,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let input = self.input.fill_buf()?;
            if input.is_empty() {
                return if self.at_start { Ok(0) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            self.at_start = false;
            let result = self.decoder.decode(input, buffer);
            let (read, written) =
                match result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                    XzNextBlockResult::NeedMoreData(0, 0) => return Err(io::ErrorKind::InvalidData.into()),
                    XzNextBlockResult::NeedMoreData(read, written) => (read, written),
                    XzNextBlockResult::EndOfStream(read, written) => {
                        self.decoder.reset();
                        self.at_start = true;
                        (read, written)
                    }
                };
            self.input.consume(read);
            if written > 0 {
                return Ok(written);
            }
        }
    }
}
