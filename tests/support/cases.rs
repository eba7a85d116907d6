//! Every conformance case is somewhere: in a test, or in a row with its reason.
//!
//! A test is a function `<prefix>_NNN_...`, anywhere below `tests/` and `src/`; a name may hold several numbers
//! (`dubbo_021_022_...`, `dubbo_033_and_036_...`) or a range (`dubbo_009_to_014_...`). Only groups of three digits right behind the prefix count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What makes a test one that can fail.
const ASSERTIONS: [&str; 8] =
    ["assert", "unwrap_err", "expect_err", "matches!", "panic!", "even(", "exact(", "load("];

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

/// The cases that a name stands for.
fn numbers(prefix: &str, name: &str) -> BTreeSet<u16> {
    let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')) else {
        return BTreeSet::new();
    };
    let (mut all, mut to) = (BTreeSet::<u16>::new(), false);
    for word in rest.split('_') {
        let number = (word.len() == 3).then(|| word.parse::<u16>().ok()).flatten();
        match (number, all.last().copied()) {
            (Some(last), Some(first)) if to => all.extend(first..=last),
            (Some(number), _) => all.extend([number]),
            (None, Some(_)) if word == "to" || word == "and" => {}
            (None, _) => break,
        }
        to = word == "to";
    }
    all
}

/// The rows of a table; what is wrong with them is added to `faults`.
fn rows(dir: &str, file: &str, columns: usize, faults: &mut Vec<String>) -> BTreeSet<u16> {
    let text = fs::read_to_string(root().join("tests").join(dir).join(file)).unwrap();
    let mut all = BTreeSet::new();
    for line in text.lines() {
        let Some(row) = line.strip_prefix('|') else { continue };
        let cells: Vec<&str> = row.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        if cells[0] == "case" || cells[0].starts_with("---") {
            continue;
        }
        let Some(number) = cells[0].parse::<u16>().ok().filter(|_| cells[0].len() == 3) else {
            faults.push(format!("{file}: {:?} is no number of a case", cells[0]));
            continue;
        };
        if cells.len() != columns || cells.iter().any(|cell| cell.is_empty()) {
            faults.push(format!("{file}: the row of {} has not {columns} cells with text", cells[0]));
        }
        if !all.insert(number) {
            faults.push(format!("{file}: {} has two rows", cells[0]));
        }
    }
    all
}

/// What is wrong with the cases of `ranges`: none may be without a test or a row, and a test must assert something. The
/// prefix is the folder, too.
pub fn faults(prefix: &str, ranges: &[RangeInclusive<u16>]) -> Vec<String> {
    let mut files = Vec::new();
    for dir in ["tests", "src"] {
        sources(&root().join(dir), &mut files);
    }
    let all: Vec<Function> = files.iter().flat_map(|file| functions(file)).collect();
    let asserts = |body: &str| ASSERTIONS.iter().any(|word| body.contains(word));
    let mut faults = Vec::new();
    let mut tests: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for function in &all {
        let numbers = numbers(prefix, &function.name);
        for number in &numbers {
            tests.entry(*number).or_default().push(&function.place);
            if !ranges.iter().any(|range| range.contains(number)) {
                faults.push(format!("{} {}: there is no case {number}", function.place, function.name));
            }
        }
        let runs = function.attributes.contains("test") && !function.attributes.contains("ignore");
        let can_fail = runs && asserts(&function.body);
        if !numbers.is_empty() && !can_fail {
            faults.push(format!("{} {} does not run, or asserts nothing", function.place, function.name));
        }
    }
    let differ = rows(prefix, "DIFFERENCES.md", 4, &mut faults);
    let not_applicable = rows(prefix, "NOT_APPLICABLE.md", 3, &mut faults);
    for number in &not_applicable {
        if let Some(places) = tests.get(number) {
            faults.push(format!("{number:03} cannot be had here, but has a test: {}", places.join(", ")));
        }
    }
    for number in differ.iter().filter(|number| !tests.contains_key(number)) {
        faults.push(format!("{number:03} is said to differ, but has no test"));
    }
    for number in ranges.iter().cloned().flatten() {
        if !tests.contains_key(&number) && !not_applicable.contains(&number) {
            faults.push(format!("{number:03} has neither a test nor a row"));
        }
    }
    faults
}
