use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use super::compression;
use crate::digest::{Digest, Hasher};
use crate::job::Reporter;
use crate::{ImageError, UnpackLimits};

/// The bytes between two reports.
const REPORT_EVERY: u64 = 1 << 20;

/// The bytes that a stream may still give, shared with the reader deep inside the archive.
pub struct Meter<'a> {
    limits: &'a UnpackLimits,
    left: Cell<u64>,
    bytes: Cell<u64>,
    file_bytes: Cell<u64>,
    /// The bytes left for a header while it is read: the tar crate holds long names in memory, so they are bounded
    /// here.
    header_left: Cell<Option<u64>>,
    failure: RefCell<Option<ImageError>>,
}

impl<'a> Meter<'a> {
    pub fn new(limits: &'a UnpackLimits, left: u64) -> Rc<Self> {
        Rc::new(Self {
            limits,
            left: Cell::new(left),
            bytes: Cell::new(0),
            file_bytes: Cell::new(0),
            header_left: Cell::new(None),
            failure: RefCell::new(None),
        })
    }

    pub fn expect_header(&self) {
        self.header_left.set(Some(self.limits.entry_metadata_bytes));
    }

    pub fn expect_data(&self) {
        self.header_left.set(None);
    }

    /// The typed cause of an I/O error that the archive passed on.
    pub fn take_failure(&self) -> Option<ImageError> {
        self.failure.borrow_mut().take()
    }

    fn fail(&self, failure: ImageError) -> io::Error {
        *self.failure.borrow_mut() = Some(failure);
        io::Error::other("stopped")
    }

    fn exceeded(&self, what: &'static str, allowed: u64) -> io::Error {
        self.fail(ImageError::LimitExceeded { what, allowed })
    }

    fn count(&self, bytes: u64) -> io::Result<()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| self.exceeded("bytes", self.limits.bytes))?);
        if let Some(header_left) = self.header_left.get() {
            let header_left = header_left.checked_sub(bytes);
            let allowed = self.limits.entry_metadata_bytes;
            let exceeded = || self.exceeded("bytes that describe one entry", allowed);
            self.header_left.set(Some(header_left.ok_or_else(exceeded)?));
        }
        let total = self.bytes.get() + bytes;
        self.bytes.set(total);
        let allowed = self.file_bytes.get().saturating_mul(self.limits.ratio);
        if total > allowed.max(self.limits.ratio_floor) {
            return Err(self.exceeded("times the size of its compressed form", self.limits.ratio));
        }
        Ok(())
    }
}

/// The totals of a stream, once all of it was read.
pub struct Summary {
    pub bytes: u64,
    pub digest: Digest,
    pub file_bytes: u64,
    pub file_digest: Digest,
}

/// A tar stream after decompression, measured on both sides.
pub struct Stream<'a> {
    decoded: Box<dyn Read + 'a>,
    hasher: Hasher,
    meter: Rc<Meter<'a>>,
    file_hasher: Rc<RefCell<Hasher>>,
}

impl<'a> Stream<'a> {
    pub fn open(file: File, meter: &Rc<Meter<'a>>, reporter: &'a Reporter) -> Result<Self, ImageError> {
        let file_hasher = Rc::new(RefCell::new(Hasher::default()));
        let source =
            Source { file, hasher: file_hasher.clone(), meter: meter.clone(), reporter, unreported: 0 };
        let decoded = compression::decoder(BufReader::with_capacity(256 << 10, source))
            .map_err(|source| ImageError::DamagedArchive { source })?;
        Ok(Self { decoded, hasher: Hasher::default(), meter: meter.clone(), file_hasher })
    }

    /// Reads the bytes after the archive, so that the decoder has checked and hashed the whole file.
    pub fn finish(mut self) -> Result<Summary, ImageError> {
        let copied = io::copy(&mut self, &mut io::sink());
        if let Some(failure) = self.meter.take_failure() {
            return Err(failure);
        }
        copied.map_err(|source| ImageError::DamagedArchive { source })?;
        Ok(Summary {
            bytes: self.meter.bytes.get(),
            digest: self.hasher.finish(),
            file_bytes: self.meter.file_bytes.get(),
            file_digest: self.file_hasher.borrow().clone().finish(),
        })
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoded.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.meter.count(count as u64)?;
        Ok(count)
    }
}

/// The file as it is stored.
struct Source<'a> {
    file: File,
    hasher: Rc<RefCell<Hasher>>,
    meter: Rc<Meter<'a>>,
    reporter: &'a Reporter,
    unreported: u64,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.borrow_mut().update(&buffer[..count]);
        self.meter.file_bytes.set(self.meter.file_bytes.get() + count as u64);
        self.unreported += count as u64;
        if self.unreported >= REPORT_EVERY || count == 0 {
            let unreported = std::mem::take(&mut self.unreported);
            self.reporter.advance(unreported).map_err(|failure| self.meter.fail(failure))?;
        }
        Ok(count)
    }
}
