//! The log of one test.
#![allow(dead_code, missing_docs)] // each test crate uses a part

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};

thread_local! {
    /// Where the lines of this thread go.
    static HERE: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Takes the log of this thread.
///
/// The subscriber is one for the whole process: with one for a thread, whichever thread comes first to a line decides
/// whether anybody is interested in it.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

/// Ends the taking when it is dropped.
pub struct Captured(Option<Log>);

impl Log {
    pub fn capture(&self) -> Captured {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Lines);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        });
        Captured(HERE.replace(Some(self.clone())))
    }

    pub fn count(&self, text: &str) -> usize {
        self.text().matches(text).count()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        HERE.with_borrow(|log| {
            if let Some(log) = log {
                log.0.lock().unwrap().extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
