//! The guide's table is what stands in the source, level by level and field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A row by its text: its level and its fields.
pub type Table = BTreeMap<String, (String, BTreeSet<String>)>;

/// The table of events in the guide.
pub fn guide() -> Table {
    let text = fs::read_to_string("src/guide/observing.md").unwrap();
    let (_, text) = text.split_once("\n# Events\n").unwrap();
    let (text, _) = text.split_once("\n# Alerts\n").unwrap();
    let mut table = Table::new();
    for line in text.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        let fields = cells[2].split(", ").map(|field| field.trim_matches('`').to_owned()).collect();
        let before = table.insert(cells[1].to_owned(), (cells[0].to_owned(), fields));
        assert!(before.is_none(), "two rows for {line}");
    }
    table
}

#[test]
fn every_event_in_the_source_stands_in_the_guide_and_the_other_way_round() {
    let guide = guide();
    let mut source = Table::new();
    for file in sources(Path::new("src")) {
        for (level, args) in macros(&fs::read_to_string(&file).unwrap()) {
            let place = format!("{} in {}", args.join(", "), file.display());
            let (texts, fields): (Vec<&String>, Vec<&String>) =
                args.iter().partition(|arg| arg.starts_with('"'));
            assert!(texts.len() == 1 && !texts[0].contains('{'), "one text without values: {place}");
            let text = texts[0].trim_matches('"').to_owned();
            let name = |field: &&String| {
                let name = field.split('=').next().unwrap_or_default();
                name.trim().trim_start_matches(['%', '?']).to_owned()
            };
            let row = (level, fields.iter().map(name).collect());
            assert_eq!(guide.get(&text), Some(&row), "the guide's row for {place}");
            source.insert(text, row);
        }
    }
    assert!(source.len() > 30, "{}", source.len());
    let gone: Vec<_> = guide.keys().filter(|text| !source.contains_key(*text)).collect();
    assert!(gone.is_empty(), "the guide tells of events that nobody emits: {gone:?}");
}

#[test]
fn what_may_be_held_back_has_the_field_that_tells_so() {
    let text = fs::read_to_string("src/guide/observing.md").unwrap();
    for (event, (_, fields)) in guide() {
        let row = text.lines().find(|line| line.contains(&format!("| {event} |"))).unwrap();
        let held = ["changes |", "faults |", "once a minute |"].iter().any(|word| row.ends_with(word));
        assert_eq!(held, fields.contains("suppressed"), "{row}");
    }
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The events in a source: their levels, and their arguments.
fn macros(source: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("tracing::") {
        let rest = &source[at + "tracing::".len()..];
        let Some((level, rest)) = rest.split_once("!(") else { continue };
        if ["error", "warn", "info", "debug", "trace"].contains(&level) {
            found.push((level.to_owned(), arguments(rest)));
        }
    }
    found
}

/// What stands before the closing parenthesis, at its commas.
fn arguments(source: &str) -> Vec<String> {
    let (mut args, mut current, mut depth, mut quoted) = (Vec::new(), String::new(), 0, false);
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => current.extend([Some(c), chars.next()].into_iter().flatten()),
            '"' => {
                quoted = !quoted;
                current.push(c);
            }
            ')' if !quoted && depth == 0 => break,
            ',' if !quoted && depth == 0 => args.push(std::mem::take(&mut current)),
            _ => {
                if !quoted {
                    depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
                }
                current.push(c);
            }
        }
    }
    args.push(current);
    args.into_iter().map(|arg| arg.trim().to_owned()).filter(|arg| !arg.is_empty()).collect()
}
