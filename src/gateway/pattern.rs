//! Patterns of paths: Spring's `PathPattern`.

use std::borrow::Cow;
use std::fmt;

use regex::Regex;

/// A pattern such as `/api/orders/{id}`, `/static/*.css`, `/docs/**` or `/files/{*rest}`.
///
/// Segments are compared one by one, with their escapes resolved and without their parameters (`;v=1`): an escaped slash
/// never ends one. Case counts.
pub(super) struct PathPattern {
    text: String,
    segments: Vec<Segment>,
    /// Whether it ends with a slash.
    slash: bool,
    /// Whether a slash at the end of a path is looked over.
    optional_slash: bool,
}

enum Segment {
    Literal(String),
    /// `*`, or `{name}`: whatever is not empty.
    Any(Option<String>),
    /// Wildcards and variables within a segment.
    Mixed(Box<Mixed>),
    /// `**`, or `{*name}`: whatever follows, also nothing.
    Rest(Option<String>),
}

struct Mixed {
    regex: Regex,
    names: Vec<String>,
}

/// The values of variables of a route's patterns.
pub(super) type Variables = Vec<Variable>;

/// A variable of a pattern, and what it stands for in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether it is a part of a path as it is on the wire, of several segments; else its escapes are resolved.
    pub(super) raw: bool,
}

/// What a pattern may be.
pub(super) const ALLOWED: &str = "a pattern of a path: /orders/{id}, /files/{name:[a-z]+}.css, * within a segment, ** or \
                                  {*rest} as the last segment";

impl PathPattern {
    /// Reads a pattern; `optional_slash` lets a path have a slash at its end that the pattern has not.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, optional_slash: bool) -> Result<Self, String> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let mut parts = cut(path)?;
        let slash = !path.is_empty() && parts.last().is_some_and(|last| last.is_empty());
        if slash || path.is_empty() {
            parts.pop();
        }
        let count = parts.len();
        let mut names: Vec<&str> = Vec::new();
        let mut segments = Vec::with_capacity(count);
        for (at, part) in parts.into_iter().enumerate() {
            let segment = segment(part, &mut names)?;
            if matches!(segment, Segment::Rest(_)) && (at + 1 < count || slash) {
                return Err(format!("{part} stands before the end: only the last segment can be that"));
            }
            segments.push(segment);
        }
        let text = format!("/{path}");
        Ok(Self { text, segments, slash, optional_slash })
    }

    /// The names of its variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments
            .iter()
            .flat_map(|segment| match segment {
                Segment::Any(Some(name)) | Segment::Rest(Some(name)) => std::slice::from_ref(name),
                Segment::Mixed(mixed) => mixed.names.as_slice(),
                _ => &[],
            })
            .map(String::as_str)
    }

    /// Whether the path, as it is on the wire, is one of these.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.walk(path, &mut |_, _, _| {})
    }

    /// The values of its variables, if the path is one of these.
    pub(super) fn variables(&self, path: &str) -> Option<Variables> {
        let mut found = Vec::new();
        let mut keep = |name: &str, value: &str, raw| {
            found.push(Variable { name: name.to_owned(), value: value.to_owned(), raw });
        };
        self.walk(path, &mut keep).then_some(found)
    }

    fn walk(&self, path: &str, each: &mut dyn FnMut(&str, &str, bool)) -> bool {
        let Some(mut rest) = path.strip_prefix('/').map(Some) else { return false };
        // None: the path is at its end.
        if rest == Some("") {
            rest = None;
        }
        for segment in &self.segments {
            if let Segment::Rest(name) = segment {
                if let Some(name) = name {
                    let all = rest.map(|rest| format!("/{rest}")).unwrap_or_default();
                    each(name, &all, true);
                }
                return true;
            }
            let Some(left) = rest else { return false };
            let (part, behind) = match left.split_once('/') {
                Some((part, behind)) => (part, Some(behind)),
                None => (left, None),
            };
            let part = plain(part);
            let fits = match segment {
                Segment::Literal(text) => *text == *part,
                Segment::Any(name) => {
                    if let Some(name) = name {
                        each(name, &part, false);
                    }
                    !part.is_empty()
                }
                Segment::Mixed(mixed) if mixed.names.is_empty() => mixed.regex.is_match(&part),
                Segment::Mixed(mixed) => match mixed.regex.captures(&part) {
                    Some(found) => {
                        for (at, name) in mixed.names.iter().enumerate() {
                            each(name, found.name(&group(at)).map_or("", |found| found.as_str()), false);
                        }
                        true
                    }
                    None => false,
                },
                Segment::Rest(_) => true,
            };
            if !fits {
                return false;
            }
            rest = behind;
        }
        match rest {
            // The path ended without a slash.
            None => !self.slash,
            Some("") => self.slash || self.optional_slash,
            Some(_) => false,
        }
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The segments of a pattern; a slash within braces ends none.
fn cut(path: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1).ok_or("a brace is closed that was not opened")?,
            b'/' if depth == 0 => {
                parts.push(&path[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("a brace is not closed".to_owned());
    }
    parts.push(&path[from..]);
    Ok(parts)
}

fn segment<'a>(part: &'a str, names: &mut Vec<&'a str>) -> Result<Segment, String> {
    match part {
        "**" => return Ok(Segment::Rest(None)),
        "*" => return Ok(Segment::Any(None)),
        _ => {}
    }
    if let Some(name) = part.strip_prefix("{*").and_then(|rest| rest.strip_suffix('}')) {
        return Ok(Segment::Rest(Some(named(name, names)?)));
    }
    if !part.contains(['*', '?', '{']) {
        return Ok(Segment::Literal(part.to_owned()));
    }
    let simple = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = simple.filter(|name| !name.contains(['{', '}', ':'])) {
        return Ok(Segment::Any(Some(named(name, names)?)));
    }
    if part.contains("**") {
        return Err(format!("{part}: ** is a segment of its own"));
    }
    mixed(part, names)
}

/// A segment as a regular expression.
fn mixed<'a>(part: &'a str, names: &mut Vec<&'a str>) -> Result<Segment, String> {
    let (mut regex, mut own, mut rest) = ("^".to_owned(), Vec::new(), part);
    while let Some(at) = rest.find(['*', '?', '{']) {
        regex.push_str(&regex::escape(&rest[..at]));
        let from = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match from {
            b'*' => regex.push_str("(?s:.*)"),
            b'?' => regex.push_str("(?s:.)"),
            _ => {
                let end = closing(rest).ok_or("a brace is not closed")?;
                let (name, inner) = rest[..end].split_once(':').unwrap_or((&rest[..end], "(?s:.+?)"));
                regex.push_str(&format!("(?<{}>{inner})", group(own.len())));
                own.push(named(name, names)?);
                rest = &rest[end + 1..];
            }
        }
    }
    regex.push_str(&regex::escape(rest));
    regex.push('$');
    let regex = Regex::new(&regex).map_err(|error| reason(&error))?;
    Ok(Segment::Mixed(Box::new(Mixed { regex, names: own })))
}

/// Where the brace is that closes the one before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|byte| {
        let end = byte == b'}' && depth == 0;
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        end
    })
}

/// Its own groups have names that no expression within can have.
fn group(at: usize) -> String {
    format!("evenkeel__{at}")
}

fn named<'a>(name: &'a str, names: &mut Vec<&'a str>) -> Result<String, String> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(word) {
        return Err(format!("{name:?} is no name of a variable"));
    }
    if names.contains(&name) {
        return Err(format!("the variable {name} stands in it twice"));
    }
    names.push(name);
    Ok(name.to_owned())
}

/// What is wrong with a regular expression, in one line.
pub(super) fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    format!("no regular expression: {}", last.trim().trim_start_matches("error: "))
}

/// A segment without its parameters, its escapes resolved; borrowed when there are none.
fn plain(part: &str) -> Cow<'_, str> {
    let part = part.find(';').map_or(part, |end| &part[..end]);
    decoded(part)
}

/// Text with `%xx` resolved; a broken escape stays.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern, false).unwrap().matches(path)
    }

    #[test]
    fn paths_and_patterns() {
        for (pattern, yes, no) in [
            ("/", &["/"][..], &["", "/a", "//", "*"][..]),
            (
                "/orders",
                &["/orders", "/%6Frders", "/orders;v=1"],
                &["/", "/orders/", "/orders/1", "/Orders", "/order"],
            ),
            ("orders", &["/orders"], &["/", "orders"]),
            ("/orders/", &["/orders/"], &["/orders", "/orders//"]),
            (
                "/orders/{id}",
                &["/orders/1", "/orders/a%2Fb", "/orders/%20"],
                &["/orders", "/orders/", "/orders/1/", "/orders/1/2", "/orders//1"],
            ),
            ("/x/**", &["/x", "/x/", "/x/a", "/x/a/b//c/"], &["/", "/xa", "/xa/b"]),
            ("/**", &["/", "/a", "/a/b", "//"], &[""]),
            ("/x/{*rest}", &["/x", "/x/", "/x/a/b"], &["/y"]),
            ("/*/b", &["/a/b"], &["//b", "/a/a/b"]),
            ("/*.css", &["/a.css", "/.css", "/a.b.css"], &["/a.cs", "/a/b.css"]),
            ("/a?c", &["/abc", "/a.c"], &["/ac", "/abbc", "/a/c"]),
            ("/{n:[0-9]+}", &["/1", "/123"], &["/", "/a", "/1a"]),
            ("/{n:[0-9]{2}}-{rest}.{ext}", &["/12-a.b", "/12-a.b.c"], &["/1-a.b", "/12-.b", "/12-ab"]),
            ("/{n:[^/]+}/b", &["/a/b"], &["/a/c"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
        let lenient = PathPattern::parse("/orders/{id}", true).unwrap();
        assert!(
            lenient.matches("/orders/1/") && !lenient.matches("/orders/1//") && !lenient.matches("/orders/")
        );
    }

    #[test]
    fn variables_have_the_text_without_escapes() {
        let of = |pattern: &str, path: &str| {
            let found = PathPattern::parse(pattern, true).unwrap().variables(path)?;
            Some(found.iter().map(|one| format!("{}={}", one.name, one.value)).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of("/{a}/x/{b}", "/1/x/%C3%A9;v=2").as_deref(), Some("a=1 b=é"));
        assert_eq!(of("/f/{*rest}", "/f/a/b").as_deref(), Some("rest=/a/b"));
        assert_eq!(of("/f/{*rest}", "/f").as_deref(), Some("rest="));
        assert_eq!(of("/{name:[a-z]+}.{ext}", "/ab.css").as_deref(), Some("name=ab ext=css"));
        assert_eq!(of("/{a}", "/1/2"), None);
        let pattern = PathPattern::parse("/{a}/{b:x+}{c}/{*d}", true).unwrap();
        assert_eq!(pattern.names().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (pattern, why) in [
            ("/**/a", "only the last segment"),
            ("/{*a}/b", "only the last segment"),
            ("/a**", "a segment of its own"),
            ("/{a", "not closed"),
            ("/a}", "not opened"),
            ("/{}", "no name"),
            ("/{a b}", "no name"),
            ("/{a}/{a}", "twice"),
            ("/{a:[}", "no regular expression"),
            ("/{a:(?=x)}", "no regular expression"),
        ] {
            let error = PathPattern::parse(pattern, true).unwrap_err();
            assert!(error.contains(why), "{pattern}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_and_no_path_panics(pattern in "[/a*?{}:%;.]{0,12}", path in "[/a%2;.]{0,12}") {
            if let Ok(pattern) = PathPattern::parse(&pattern, true) {
                let matched = pattern.matches(&path);
                proptest::prop_assert_eq!(pattern.variables(&path).is_some(), matched);
            }
        }
    }
}
