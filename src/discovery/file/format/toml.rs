//! TOML, from the values of its parser, which keep the text of a number.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::tree::{Broken, DEPTH, Node, Place, Places, Value, insert};

pub(super) fn parse(text: &str) -> Result<Option<Node>, Broken> {
    let places = Places::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(Place { line: 1, column: 1 }, |span| places.of(span.start));
        Broken::new(at, error.message())
    })?;
    // A file without a single key says nothing; "nobody" is written as an empty table `services`.
    if table.get_ref().is_empty() {
        return Ok(None);
    }
    let at = Place { line: 1, column: 1 };
    Ok(Some(Node { value: map(table.get_ref(), &places, 0)?, at }))
}

fn map(table: &DeTable<'_>, places: &Places<'_>, depth: usize) -> Result<Value, Broken> {
    let (mut entries, mut keys) = (Vec::with_capacity(table.len()), HashSet::new());
    for (key, value) in table {
        let at = places.of(key.span().start);
        insert(&mut entries, &mut keys, at, key.get_ref().to_string(), node(value, places, depth + 1)?)?;
    }
    Ok(Value::Map(entries))
}

fn node(value: &Spanned<DeValue<'_>>, places: &Places<'_>, depth: usize) -> Result<Node, Broken> {
    let at = places.of(value.span().start);
    if depth > DEPTH {
        return Err(Broken::new(at, format!("it is nested deeper than {DEPTH} levels")));
    }
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Scalar(text.to_string()),
        DeValue::Integer(number) => Value::Scalar(number.to_string()),
        DeValue::Float(number) => Value::Scalar(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Value::Scalar(truth.to_string()),
        DeValue::Datetime(time) => Value::Scalar(time.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(item, places, depth + 1)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => map(table, places, depth)?,
    };
    Ok(Node { value, at })
}
