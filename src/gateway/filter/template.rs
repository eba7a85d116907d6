//! Texts with variables of the route's patterns, and replacements of regular expressions.

use regex::{Captures, Regex};

use crate::gateway::args::Fault;
use crate::gateway::pattern::Variable;

/// `Blue-{segment}`: a text with variables.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Template {
    /// Reads a text; braces around what is no word are text. A variable that no pattern of the route gives is a fault.
    pub(super) fn parse(text: &str, names: &[&str]) -> Result<Self, Fault> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, inside)) = rest.split_once('{') {
            plain.push_str(before);
            let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            match inside.split_once('}') {
                Some((name, behind)) if !name.is_empty() && name.chars().all(word) => {
                    if !names.contains(&name) {
                        let allowed = if names.is_empty() {
                            "a predicate Path or Host with variables".to_owned()
                        } else {
                            names.join(", ")
                        };
                        let reason = format!("no pattern of the route has a variable {name}");
                        return Err(Fault::new(format!("{{{name}}}"), reason, allowed));
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Variable(name.to_owned()));
                    rest = behind;
                }
                _ => {
                    plain.push('{');
                    rest = inside;
                }
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self(pieces))
    }

    /// The text, if it has no variable.
    pub(super) fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text with the values of its variables as they are.
    pub(in crate::gateway) fn text(&self, variables: &[Variable]) -> String {
        self.with(variables, &|one, out| out.push_str(&one.value))
    }

    /// The same within a path: what would end a segment, or begin a query, is escaped.
    pub(super) fn path(&self, variables: &[Variable]) -> String {
        self.with(variables, &|one, out| {
            if one.raw { out.push_str(&one.value) } else { escape(&one.value, out) }
        })
    }

    /// The same within a query.
    pub(super) fn query(&self, variables: &[Variable]) -> String {
        self.with(variables, &|one, out| escape(&one.value, out))
    }

    fn with(&self, variables: &[Variable], write: &dyn Fn(&Variable, &mut String)) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                // One of another pattern of the route has no value.
                Piece::Variable(name) => {
                    if let Some(one) = variables.iter().find(|one| one.name == *name) {
                        write(one, &mut out);
                    }
                }
            }
        }
        out
    }
}

/// Writes text as it may stand in a segment of a path.
fn escape(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$'()*,:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// What takes the place of a match, as Java writes it: `/${segment}`, `/$1`, `\$` for a dollar. In YAML a dollar before a
/// brace is written `$\`, so that it is no placeholder.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Replacement(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Number(usize),
    Name(String),
}

impl Replacement {
    /// Reads it for an expression, which must have its groups.
    pub(super) fn parse(text: &str, regex: &Regex) -> Result<Self, Fault> {
        let allowed = "$1 or ${name} for groups of the expression, \\$ for a dollar; in YAML $\\{name}";
        let fault = |reason: String| Fault::new(text, reason, allowed);
        let spelt = text.replace("$\\", "$");
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = spelt.as_str();
        while let Some(at) = rest.find(['$', '\\']) {
            plain.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            if rest.as_bytes()[at] == b'\\' {
                let next =
                    behind.chars().next().ok_or_else(|| fault("it ends with a backslash".to_owned()))?;
                plain.push(next);
                rest = &behind[next.len_utf8()..];
                continue;
            }
            parts.push(Part::Text(std::mem::take(&mut plain)));
            if let Some(inside) = behind.strip_prefix('{') {
                let (name, after) =
                    inside.split_once('}').ok_or_else(|| fault("a brace is not closed".to_owned()))?;
                if !regex.capture_names().flatten().any(|known| known == name) {
                    return Err(fault(format!("the expression has no group {name}")));
                }
                parts.push(Part::Name(name.to_owned()));
                rest = after;
            } else {
                // As many digits as there are groups.
                let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
                let number = (1..=digits).rev().find_map(|end| {
                    Some((end, behind[..end].parse().ok().filter(|number| *number < regex.captures_len())?))
                });
                let (end, number) =
                    number.ok_or_else(|| fault("the expression has no such group".to_owned()))?;
                parts.push(Part::Number(number));
                rest = &behind[end..];
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }

    /// The path with all matches replaced.
    pub(super) fn apply(&self, regex: &Regex, path: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let mut out = String::new();
            for part in &self.0 {
                out.push_str(match part {
                    Part::Text(text) => text,
                    Part::Number(at) => found.get(*at).map_or("", |found| found.as_str()),
                    Part::Name(name) => found.name(name).map_or("", |found| found.as_str()),
                });
            }
            out
        };
        regex.replace_all(path, replace).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_the_values_of_its_variables() {
        let names = ["a", "rest"];
        let variables = [
            Variable { name: "a".to_owned(), value: "x/y?é".to_owned(), raw: false },
            Variable { name: "rest".to_owned(), value: "/b/c".to_owned(), raw: true },
        ];
        let template = Template::parse("<{a}>{rest} {not this} {", &names).unwrap();
        assert_eq!(template.text(&variables), "<x/y?é>/b/c {not this} {");
        assert_eq!(
            Template::parse("/p/{a}{rest}", &names).unwrap().path(&variables),
            "/p/x%2Fy%3F%C3%A9/b/c"
        );
        assert_eq!(Template::parse("plain", &names).unwrap().fixed(), Some("plain"));
        assert_eq!(Template::parse("", &names).unwrap().fixed(), Some(""));
        let fault = Template::parse("{b}", &names).unwrap_err();
        assert_eq!((fault.value.as_str(), fault.allowed.as_str()), ("{b}", "a, rest"));
    }

    #[test]
    fn replacements_are_those_of_java() {
        let replaced = |regex: &str, replacement: &str, path: &str| {
            let regex = Regex::new(regex).unwrap();
            Replacement::parse(replacement, &regex).map(|replacement| replacement.apply(&regex, path))
        };
        for (regex, replacement, path, wanted) in [
            ("/red/?(?<segment>.*)", "/$\\{segment}", "/red/blue", "/blue"),
            ("/red/?(?<segment>.*)", "/${segment}", "/red/a%2Fb", "/a%2Fb"),
            ("/red(.*)", "$1/x", "/red/y", "/y/x"),
            ("/(a)(b)", "/$2$1$10", "/ab", "/baa0"),
            ("o", "\\$", "/foo", "/f$$"),
            ("nothing", "x", "/foo", "/foo"),
        ] {
            assert_eq!(replaced(regex, replacement, path).unwrap(), wanted, "{regex} {replacement}");
        }
        for (regex, replacement) in [("a", "$1"), ("a", "${b}"), ("(?<b>a)", "${b"), ("a", "\\"), ("a", "$")]
        {
            assert!(replaced(regex, replacement, "/").is_err(), "{regex} {replacement}");
        }
    }
}
