//! An error as it travels to the host: which step, and the kernel's number.

use rustix::io::Errno;

#[derive(Debug)]
pub struct Failure {
    pub step: String,
    pub errno: Errno,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.step, self.errno)
    }
}

pub type Outcome<T> = Result<T, Failure>;

/// Names the step that a bare error number came from.
pub trait During<T> {
    fn during(self, step: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during(self, step: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|errno| Failure { step: step(), errno })
    }
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, step: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Failure { step: step(), errno }
        })
    }
}
