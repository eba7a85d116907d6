//! From a tree to lists of instances.

use std::collections::HashMap;
use std::sync::Arc;

use super::FileFormat;
use super::tree::{self, Broken, Node, Place, Value};
use crate::discovery::SimpleEntry;
use crate::{InvalidInstance, ServiceId, ServiceInstance};

/// What a document holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registry {
    pub(crate) lists: HashMap<ServiceId, Arc<[ServiceInstance]>>,
    /// What was left out or is doubtful, in the order of the document.
    pub(crate) notes: Vec<Note>,
}

/// Something that is wrong in a document and does not make it useless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Where; not a part of the text, since lines move while the problem stays the same.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Registry {
    /// The instances of `service`; none if it is missing.
    pub(crate) fn list(&self, service: &ServiceId) -> Arc<[ServiceInstance]> {
        self.lists.get(service).cloned().unwrap_or_default()
    }
}

/// Reads a document.
///
/// # Errors
/// [`Broken`] for one that cannot be read, holds nothing at all, or has another shape.
pub(crate) fn parse(text: &str, format: FileFormat) -> Result<Registry, Broken> {
    let Some(root) = tree::parse(text, format)? else {
        let end = Place::of_byte(text.as_bytes(), text.len());
        return Err(Broken {
            at: end,
            reason: "it is empty; a file that names nobody has an empty map `services`".into(),
        });
    };
    let Value::Map(entries) = root.value else {
        return Err(expected(root.at, "a map of services ({} for none)"));
    };
    let nested =
        entries.iter().position(|(key, node)| key == "services" && !matches!(node.value, Value::List(_)));
    let mut reader = Reader::default();
    let Some(nested) = nested else {
        reader.services(entries)?;
        return Ok(reader.finish());
    };
    for (index, (key, node)) in entries.into_iter().enumerate() {
        match node.value {
            _ if index != nested => {
                reader.note(node.at.line, format!("{key:?} beside `services` is not read"));
            }
            Value::Map(services) => reader.services(services)?,
            _ => return Err(expected(node.at, "a map of services ({} for none)")),
        }
    }
    Ok(reader.finish())
}

const LIST: &str = "a list of instances ([] for none)";

fn expected(at: Place, what: &str) -> Broken {
    Broken { at, reason: format!("{what} is expected here") }
}

#[derive(Default)]
struct Reader {
    lists: HashMap<ServiceId, Vec<ServiceInstance>>,
    notes: Vec<Note>,
}

impl Reader {
    fn note(&mut self, line: usize, text: String) {
        self.notes.push(Note { line, text });
    }

    fn finish(self) -> Registry {
        let lists = self.lists.into_iter().map(|(service, list)| (service, list.into())).collect();
        Registry { lists, notes: self.notes }
    }

    fn services(&mut self, services: Vec<(String, Node)>) -> Result<(), Broken> {
        for (name, node) in services {
            let line = node.at.line;
            let entries = entries(node)?;
            let service = match ServiceId::new(&name) {
                Ok(service) => service,
                Err(error) => {
                    self.note(line, format!("{error}; it is left out"));
                    continue;
                }
            };
            let read: Vec<ServiceInstance> =
                entries.into_iter().filter_map(|entry| self.instance(&service, entry)).collect();
            // Two spellings of one name stand for one service.
            self.lists.entry(service).or_default().extend(read);
        }
        Ok(())
    }

    fn instance(&mut self, service: &ServiceId, node: Node) -> Option<ServiceInstance> {
        let line = node.at.line;
        let read = self.entry(service, node).and_then(|entry| entry.read(service));
        match read {
            Ok((instance, notes)) => {
                for note in notes {
                    self.note(line, note.to_string());
                }
                Some(instance)
            }
            Err(error) => {
                self.note(line, format!("{error}; it is left out"));
                None
            }
        }
    }

    fn entry(&mut self, service: &ServiceId, node: Node) -> Result<SimpleEntry, InvalidInstance> {
        let line = node.at.line;
        let fields = match node.value {
            Value::Scalar(uri) => return Ok(SimpleEntry::uri(uri)),
            Value::Map(fields) => fields,
            Value::Null | Value::List(_) => {
                let id = format!("line {line}");
                return Err(
                    InvalidInstance::new(id, "entry", "", "a map or a uri is expected").of_service(service)
                );
            }
        };
        let mut entry = SimpleEntry::default();
        // (field, what is wrong): told once the id is known, wherever it stands.
        let (mut unknown, mut nested) = (Vec::new(), Vec::new());
        for (name, node) in fields {
            match node.value {
                Value::Null => {}
                Value::Scalar(ref text) if entry.set(&name, text.as_str()) => {}
                Value::Map(values) if name.eq_ignore_ascii_case("metadata") => {
                    flatten(&mut entry.metadata, None, values);
                }
                Value::Scalar(_) => unknown.push(name),
                Value::List(_) | Value::Map(_) => nested.push(name),
            }
        }
        let wrong = |field, name: &str, reason| {
            InvalidInstance::new(entry.label(), field, name, reason).of_service(service)
        };
        for name in unknown {
            self.note(line, wrong("field", &name, "no such field is known, it is not read").to_string());
        }
        match nested.first() {
            Some(name) => Err(wrong("field", name, "a single value is expected")),
            None => Ok(entry),
        }
    }
}

/// The entries of a service: a list, or a map with a list `instances`.
///
/// A name with nothing behind it is no empty list: in YAML a file that ends too early looks like that.
fn entries(node: Node) -> Result<Vec<Node>, Broken> {
    match node.value {
        Value::List(items) => Ok(items),
        Value::Map(fields) if fields.is_empty() => Ok(Vec::new()),
        Value::Map(fields) => match fields.into_iter().find(|(key, _)| key == "instances") {
            Some((_, Node { value: Value::List(items), .. })) => Ok(items),
            Some((_, wrong)) => Err(expected(wrong.at, LIST)),
            None => Err(expected(node.at, LIST)),
        },
        Value::Scalar(_) | Value::Null => Err(expected(node.at, LIST)),
    }
}

/// Nested metadata get the names that properties have: `a.b` and `a[0]`.
fn flatten(metadata: &mut Vec<(String, String)>, prefix: Option<&str>, values: Vec<(String, Node)>) {
    for (key, node) in values {
        let key = prefix.map_or_else(|| key.clone(), |prefix| format!("{prefix}.{key}"));
        put(metadata, key, node);
    }
}

fn put(metadata: &mut Vec<(String, String)>, key: String, node: Node) {
    match node.value {
        Value::Null => {}
        Value::Scalar(text) => metadata.push((key, text)),
        Value::Map(values) => flatten(metadata, Some(&key), values),
        Value::List(items) => {
            for (index, item) in items.into_iter().enumerate() {
                put(metadata, format!("{key}[{index}]"), item);
            }
        }
    }
}
