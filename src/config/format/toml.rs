//! TOML.

use super::tree::{Lines, Node, Unreadable, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a TOML text; the parser refuses duplicate keys and more than 80 levels.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, Unreadable> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| Unreadable {
        line: error.span().map(|span| lines.at(span.start)),
        why: error.message().to_owned(),
    })?;
    let root = Reader { text, lines }.table(table.get_ref(), 1);
    Ok(vec![root])
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines,
}

impl Reader<'_> {
    fn table(&self, table: &DeTable<'_>, line: usize) -> Node {
        let entries =
            table.iter().map(|(key, value)| (key.get_ref().to_string(), self.value(value))).collect();
        Node { line, value: Value::Map(entries) }
    }

    fn value(&self, spanned: &Spanned<DeValue<'_>>) -> Node {
        let span = spanned.span();
        let line = self.lines.at(span.start);
        let value = match spanned.get_ref() {
            DeValue::Table(table) => return self.table(table, line),
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.value(item)).collect()),
            DeValue::String(text) => Value::Text(text.to_string()),
            // `1_000` is a way to write digits; every other scalar keeps its spelling.
            DeValue::Integer(number) if number.radix() == 10 => Value::Text(number.as_str().replace('_', "")),
            _ => Value::Text(self.text.get(span).unwrap_or_default().to_owned()),
        };
        Node { line, value }
    }
}
