//! One read of the file; it blocks.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::FileFormat;
use super::format::{self, Broken, Place, Registry};
use crate::discovery::{SupplyError, SupplyErrorKind};
use crate::files::Fingerprint;

/// The largest file that is read: some hundred thousand instances. A larger one is a mistake, and would be one on every
/// change.
const LARGEST: u64 = 64 * 1024 * 1024;

/// What is read, and how.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As it was given, for errors.
    pub(super) shown: String,
    /// Absolute, so that a change of the working directory does not matter.
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
}

impl Source {
    /// What errors call this source.
    pub(super) fn origin(&self) -> String {
        format!("file {}", self.shown)
    }

    /// The registry in the file, or why there is no answer; names the place.
    pub(super) fn load(&self) -> Result<Registry, SupplyError> {
        let bytes = self.read().map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::PermissionDenied => SupplyErrorKind::Denied,
                io::ErrorKind::FileTooLarge => SupplyErrorKind::Invalid,
                _ => SupplyErrorKind::Io,
            };
            SupplyError::new(kind, self.origin(), format!("{}: {error}", self.shown))
        })?;
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => format::parse(text, self.format),
            Err(error) => {
                let at = Place::of_byte(&bytes, error.valid_up_to());
                Err(Broken { at, reason: "a byte that is no UTF-8".to_owned() })
            }
        };
        parsed.map_err(|Broken { at, reason }| {
            let message = format!("{}:{}:{}: {reason}", self.shown, at.line, at.column);
            SupplyError::new(SupplyErrorKind::Invalid, self.origin(), message)
        })
    }

    /// The bytes of the file in one state, if it holds still for long enough.
    fn read(&self) -> io::Result<Vec<u8>> {
        const ATTEMPTS: usize = 3;
        let mut bytes = Vec::new();
        for _ in 0..ATTEMPTS {
            bytes.clear();
            let file = File::open(&self.path)?;
            let before = Fingerprint::of_open(&file);
            (&file).take(LARGEST + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > LARGEST {
                let message = format!("it is larger than {} MiB", LARGEST >> 20);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
            if Fingerprint::of_open(&file) == before {
                break;
            }
        }
        Ok(bytes)
    }
}
