//! Every conformance case is somewhere: in a test, or in a row with its reason.
//!
//! A test is a function `scl_NNN_...`, anywhere below `tests/` and `src/`; a name may hold several numbers (`scl_141_142_...`)
//! or a range (`scl_055_to_063_...`). Only groups of three digits right behind `scl_` count as numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const SECTIONS: [(&str, RangeInclusive<u16>); 25] = [
    ("3.1", 1..=16),
    ("3.2", 17..=20),
    ("3.3", 21..=39),
    ("3.4", 40..=47),
    ("3.5", 48..=54),
    ("3.6", 55..=63),
    ("3.7", 64..=73),
    ("3.8", 74..=82),
    ("3.9", 83..=90),
    ("3.10", 91..=102),
    ("3.11", 103..=116),
    ("3.12", 117..=136),
    ("3.13", 137..=165),
    ("3.14", 166..=174),
    ("3.15", 175..=188),
    ("3.16", 189..=198),
    ("3.17", 199..=208),
    ("3.18", 209..=230),
    ("3.19", 231..=251),
    ("3.20", 252..=257),
    ("3.21", 258..=273),
    ("3.22", 274..=289),
    ("3.23", 290..=300),
    ("3.24", 301..=310),
    ("3.25", 311..=315),
];

/// What makes a test one that can fail.
const ASSERTIONS: [&str; 6] = ["assert", "unwrap_err", "expect_err", "matches!", "panic!", "even("];

struct Function {
    place: String,
    name: String,
    attributes: String,
    body: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// The functions of a file as rustfmt writes them: the last line of one is a brace at the indentation of its first.
fn functions(path: &Path) -> Vec<Function> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let head =
            ["pub ", "async "].into_iter().fold(code, |code, word| code.strip_prefix(word).unwrap_or(code));
        let Some(rest) = head.strip_prefix("fn ") else { continue };
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let end = format!("{indent}}}");
        let body: Vec<&str> = lines[at..].iter().copied().take_while(|line| *line != end).collect();
        let attributes: Vec<&str> = lines[..at]
            .iter()
            .rev()
            .map(|line| line.trim())
            .take_while(|line| line.starts_with('#'))
            .collect();
        let place = format!("{}:{}", path.strip_prefix(root()).unwrap().display(), at + 1);
        all.push(Function { place, name, attributes: attributes.join(" "), body: body.join("\n") });
    }
    all
}

fn all_functions() -> Vec<Function> {
    let mut files = Vec::new();
    for dir in ["tests", "src"] {
        sources(&root().join(dir), &mut files);
    }
    files.iter().flat_map(|file| functions(file)).collect()
}

/// The cases that a name stands for.
fn numbers(name: &str) -> BTreeSet<u16> {
    let Some(rest) = name.strip_prefix("scl_") else { return BTreeSet::new() };
    let (mut all, mut to) = (BTreeSet::<u16>::new(), false);
    for word in rest.split('_') {
        let number = (word.len() == 3).then(|| word.parse::<u16>().ok()).flatten();
        match (number, all.last().copied()) {
            (Some(last), Some(first)) if to => all.extend(first..=last),
            (Some(number), _) => all.extend([number]),
            (None, Some(_)) if word == "to" => {}
            (None, _) => break,
        }
        to = word == "to";
    }
    all
}

fn section_of(number: u16) -> Option<&'static str> {
    SECTIONS.iter().find(|(_, range)| range.contains(&number)).map(|(section, _)| *section)
}

/// The rows of a table; what is wrong with them is added to `faults`.
fn rows(file: &str, columns: usize, faults: &mut Vec<String>) -> BTreeSet<u16> {
    let text = fs::read_to_string(root().join("tests/scl").join(file)).unwrap();
    let (mut all, mut section) = (BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.split(' ').next().unwrap_or_default();
        }
        let Some(row) = line.strip_prefix('|') else { continue };
        let cells: Vec<&str> = row.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        if cells[0] == "case" || cells[0].starts_with("---") {
            continue;
        }
        let number = cells[0].parse::<u16>().unwrap_or_default();
        if cells[0].len() != 3 || section_of(number) != Some(section) {
            faults.push(format!("{file}: {:?} stands below {section}, where it does not belong", cells[0]));
        }
        if cells.len() != columns || cells.iter().any(|cell| cell.is_empty()) {
            faults.push(format!("{file}: the row of {} has not {columns} cells with text", cells[0]));
        }
        if !all.insert(number) {
            faults.push(format!("{file}: {} has two rows", cells[0]));
        }
    }
    all
}

#[test]
fn scl_count_every_case_is_a_test_or_a_row() {
    let mut faults = Vec::new();
    let mut tests: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for function in all_functions() {
        for number in numbers(&function.name) {
            tests.entry(number).or_default().push(function.place.clone());
            if !function.attributes.contains("test") || function.attributes.contains("ignore") {
                faults.push(format!("{} {} does not run as a test", function.place, function.name));
            }
            if section_of(number).is_none() {
                faults.push(format!("{} {}: there is no case {number}", function.place, function.name));
            }
        }
    }
    let differ = rows("DIFFERENCES.md", 4, &mut faults);
    let not_applicable = rows("NOT_APPLICABLE.md", 3, &mut faults);
    for number in &not_applicable {
        if let Some(places) = tests.get(number) {
            faults.push(format!("{number:03} cannot be had here, but has a test: {}", places.join(", ")));
        }
    }
    for number in differ.iter().filter(|number| !tests.contains_key(number)) {
        faults.push(format!("{number:03} is said to differ, but has no test"));
    }
    for (section, range) in &SECTIONS {
        let is_missing = |number: &u16| !tests.contains_key(number) && !not_applicable.contains(number);
        let missing: Vec<String> =
            range.clone().filter(is_missing).map(|number| format!("{number:03}")).collect();
        if !missing.is_empty() {
            faults.push(format!("section {section} misses {}", missing.join(" ")));
        }
    }
    let same = tests.keys().filter(|number| !differ.contains(number)).count();
    println!(
        "{same} cases as in Spring, {} decided otherwise, {} not applicable",
        differ.len(),
        not_applicable.len()
    );
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn scl_count_every_test_of_a_case_asserts_something() {
    let all = all_functions();
    let asserts = |body: &str| ASSERTIONS.iter().any(|word| body.contains(word));
    // A test may leave it to a function of its own.
    let helpers: Vec<String> = all
        .iter()
        .filter(|function| !function.attributes.contains("test") && asserts(&function.body))
        .map(|function| format!("{}(", function.name))
        .collect();
    let silent: Vec<String> = all
        .iter()
        .filter(|function| !numbers(&function.name).is_empty() && !asserts(&function.body))
        .filter(|function| !helpers.iter().any(|helper| function.body.contains(helper)))
        .map(|function| format!("{} {}", function.place, function.name))
        .collect();
    assert!(silent.is_empty(), "these tests assert nothing:\n{}", silent.join("\n"));
}

#[test]
fn scl_count_reads_numbers_and_ranges() {
    for (name, expected) in [
        ("scl_017_one", vec![17]),
        ("scl_141_142_two_of_404", vec![141, 142]),
        ("scl_055_to_058_a_range", vec![55, 56, 57, 58]),
        ("scl_094_5_of_101_instances", vec![94]),
        ("scl_count_is_none", vec![]),
        ("case_017_of_another_list", vec![]),
    ] {
        assert_eq!(numbers(name).into_iter().collect::<Vec<_>>(), expected, "{name}");
    }
}
