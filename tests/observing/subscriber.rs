//! One subscriber for the whole process, which keeps what this crate says.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

pub type Fields = BTreeMap<String, String>;

/// An event, or a span.
#[derive(Clone, Debug)]
pub struct Said {
    pub id: u64,
    pub level: Level,
    pub target: String,
    pub name: String,
    pub fields: Fields,
}

static ALL: Mutex<Vec<Said>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Starts to listen; every test does.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listening).unwrap());
}

/// The events with this text of which a field has this value.
pub fn events(text: &str, field: &str, value: &str) -> Vec<Said> {
    let all = ALL.lock().unwrap();
    let is_it = |said: &&Said| {
        said.fields.get("message").is_some_and(|message| message == text)
            && said.fields.get(field).is_some_and(|found| found.contains(value))
    };
    all.iter().filter(is_it).cloned().collect()
}

/// The spans of this name of which a field has this value.
pub fn spans(name: &str, field: &str, value: &str) -> Vec<Said> {
    let all = ALL.lock().unwrap();
    let is_it =
        |said: &&Said| said.name == name && said.fields.get(field).is_some_and(|found| found == value);
    all.iter().filter(is_it).cloned().collect()
}

struct Listening;

impl Subscriber for Listening {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("evenkeel")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields::new();
        span.record(&mut Reader(&mut fields));
        keep(id, span.metadata(), fields);
        Id::from_u64(id)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut all = ALL.lock().unwrap();
        if let Some(said) = all.iter_mut().find(|said| said.id == span.into_u64()) {
            values.record(&mut Reader(&mut said.fields));
        }
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        keep(0, event.metadata(), fields);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn keep(id: u64, metadata: &Metadata<'_>, fields: Fields) {
    let (target, name) = (metadata.target().to_owned(), metadata.name().to_owned());
    ALL.lock().unwrap().push(Said { id, level: *metadata.level(), target, name, fields });
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
