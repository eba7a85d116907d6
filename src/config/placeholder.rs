//! Placeholders in values: `${name}`, `${name:default}`.
//!
//! As Spring documents them: looked up in the code, then the environment, then the files, later documents first; what is
//! found may hold placeholders itself, and so may a name or a default. `\${` is a dollar and a brace, and an opening
//! brace that is never closed is text. The two things that can grow without end have limits: the number of look-ups and
//! the length of what comes out, over all values of a set.

#[cfg(feature = "config")]
use super::error::Place;
use super::values::Values;
use super::variables::Variables;
use std::borrow::Cow;
use std::cell::Cell;

/// Placeholders within each other. More is no configuration that anybody could read.
const DEEPEST: usize = 32;

/// Look-ups for one set of properties, each counted once more for every document; a list of values that each double the
/// one before runs into it.
const MOST_LOOK_UPS: usize = 400_000;

/// Bytes that placeholders may add to one set of properties.
const MOST_BYTES: usize = 8 << 20;

/// Looks placeholders up.
pub(crate) struct Resolver<'a> {
    code: &'a Values,
    environment: &'a Variables,
    /// Weakest first, as they stand in the files.
    files: Vec<&'a Values>,
    look_ups: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(code: &'a Values, environment: &'a Variables, files: Vec<&'a Values>) -> Self {
        Self { code, environment, files, look_ups: Cell::new(MOST_LOOK_UPS), bytes: Cell::new(MOST_BYTES) }
    }

    /// The text with its placeholders replaced; why not, if that cannot be.
    pub(crate) fn resolve<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        if !text.contains("${") {
            return Ok(Cow::Borrowed(text));
        }
        let mut out = String::new();
        self.expand(text, &mut Vec::new(), 0, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// The value of a key, resolved; nothing if there is none, or if it cannot be resolved.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        self.resolve(self.find(key)?).ok().map(Cow::into_owned)
    }

    /// The words of a list, resolved; nothing if there is no such key.
    #[cfg(feature = "config")]
    pub(crate) fn words(&self, key: &str) -> Result<Option<Vec<String>>, String> {
        self.lists(key).next().map(|texts| self.split(texts)).transpose()
    }

    /// The words of a list in every source that has it, resolved; those of the strongest source first.
    #[cfg(feature = "config")]
    pub(crate) fn words_of_all(&self, key: &str) -> Result<Vec<String>, String> {
        self.split(self.lists(key).flatten())
    }

    /// Where a list was written, and its first text: the strongest source that has it.
    #[cfg(feature = "config")]
    pub(crate) fn written(&self, key: &str) -> Option<(&'a str, Place)> {
        let of =
            |values: &'a Values| values.list(key)?.first().map(|one| (one.text.as_str(), one.place.clone()));
        let variables = || {
            let (name, value) = self.environment.of_list(key)?.first().copied()?;
            Some((value, Place::Environment { variable: name.into() }))
        };
        of(self.code).or_else(variables).or_else(|| self.files.iter().rev().find_map(|values| of(values)))
    }

    /// The texts of a list in each source that has it, the strongest first.
    #[cfg(feature = "config")]
    fn lists(&self, key: &str) -> impl Iterator<Item = Vec<&'a str>> {
        let of = |values: &'a Values| {
            Some(values.list(key)?.into_iter().map(|value| value.text.as_str()).collect::<Vec<_>>())
        };
        let variables = self.environment.of_list(key);
        let variables = variables.map(|all| all.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
        let files = self.files.iter().rev().filter_map(|values| of(values)).collect::<Vec<_>>();
        of(self.code).into_iter().chain(variables).chain(files)
    }

    #[cfg(feature = "config")]
    fn split<'b>(&self, texts: impl IntoIterator<Item = &'b str>) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        for text in texts {
            words.extend(super::read::comma_list(&self.resolve(text)?).map(str::to_owned));
        }
        Ok(words)
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let of = |values: &'a Values| values.get(name).map(|value| value.text.as_str());
        of(self.code)
            .or_else(|| self.environment.of_key(name).map(|(_, value)| value))
            .or_else(|| self.files.iter().rev().find_map(|values| of(values)))
    }

    fn expand(
        &self,
        text: &str,
        chain: &mut Vec<String>,
        depth: usize,
        out: &mut String,
    ) -> Result<(), String> {
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let inside = &rest[at + 2..];
            if let Some(before) = rest[..at].strip_suffix('\\') {
                self.push(before, out)?;
                self.push("${", out)?;
                rest = inside;
                continue;
            }
            let Some(end) = closing(inside) else { break };
            self.push(&rest[..at], out)?;
            if depth >= DEEPEST {
                return Err(format!("more than {DEEPEST} placeholders within each other"));
            }
            self.replace(&inside[..end], chain, depth + 1, out)?;
            rest = &inside[end + 1..];
        }
        self.push(rest, out)
    }

    /// Writes what stands for one placeholder, given without its braces.
    fn replace(
        &self,
        body: &str,
        chain: &mut Vec<String>,
        depth: usize,
        out: &mut String,
    ) -> Result<(), String> {
        let (name, default) = match colon(body) {
            Some(at) => (&body[..at], Some(&body[at + 1..])),
            None => (body, None),
        };
        let mut key = String::new();
        self.expand(name, chain, depth, &mut key)?;
        let key = key.replace("\\:", ":").trim().to_owned();
        // One that is in no document is looked for in each.
        let left = self.look_ups.get().checked_sub(1 + self.files.len());
        self.look_ups.set(left.ok_or("too many placeholders to look up in too many documents")?);
        match (self.find(&key), default) {
            (Some(_), _) if chain.contains(&key) => {
                chain.push(key);
                Err(format!("placeholders that go in a circle: {}", chain.join(" -> ")))
            }
            (Some(value), _) => {
                chain.push(key);
                self.expand(value, chain, depth, out)?;
                chain.pop();
                Ok(())
            }
            (None, Some(default)) => self.expand(default, chain, depth, out),
            (None, None) => {
                let within =
                    if chain.is_empty() { String::new() } else { format!(" (from {})", chain.join(" -> ")) };
                Err(format!(
                    "nothing is known for the placeholder ${{{key}}}{within}: no such variable, and no such key in the \
                     files; ${{{key}:...}} gives it a default"
                ))
            }
        }
    }

    fn push(&self, text: &str, out: &mut String) -> Result<(), String> {
        let left = self.bytes.get().checked_sub(text.len());
        self.bytes.set(left.ok_or_else(|| format!("placeholders that make more than {MOST_BYTES} bytes"))?);
        out.push_str(text);
        Ok(())
    }
}

/// Where the brace is that closes the one before the text.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    text.bytes().position(|byte| {
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return true,
            b'}' => open -= 1,
            _ => {}
        }
        false
    })
}

/// Where the name ends and the default starts.
fn colon(body: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut before = 0;
    body.bytes().position(|byte| {
        let found = byte == b':' && open == 0 && before != b'\\';
        match byte {
            b'{' => open += 1,
            b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        before = byte;
        found
    })
}

#[cfg(test)]
mod tests {
    use super::super::error::Place;
    use super::super::key;
    use super::super::values::Value;
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        let mut values = Values::default();
        for (name, text) in pairs {
            let mut path = Vec::new();
            key::split(name, 0, &mut path);
            values.put(&path, Value { text: (*text).to_owned(), place: Place::Code });
        }
        values
    }

    fn resolve(text: &str) -> Result<String, String> {
        let code = values(&[("who", "code")]);
        let variables = [("WHO", "env"), ("APP_ZONE", "eu-1a"), ("EMPTY", "")];
        let variables =
            variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let first =
            values(&[("who", "file"), ("app.zone", "file"), ("a", "1"), ("b", "${a}${a}"), ("z", "old")]);
        let second =
            values(&[("z", "new"), ("x", "${y}"), ("y", "${x:never}"), ("broken", "${gone}"), ("k1", "z")]);
        let resolver = Resolver::new(&code, &variables, vec![&first, &second]);
        resolver.resolve(text).map(Cow::into_owned)
    }

    #[test]
    fn names_defaults_and_order() {
        for (text, wanted) in [
            ("plain", "plain"),
            ("${who}", "code"),
            ("${WHO}", "env"),
            ("${app.zone}", "eu-1a"),
            ("<${z}>", "<new>"),
            ("${b}", "11"),
            ("${gone:x}", "x"),
            ("${gone:}", ""),
            ("${EMPTY:x}", ""),
            ("${gone:http://h:80/}", "http://h:80/"),
            ("${gone:${away:${z}}}", "new"),
            ("${z:${gone}}", "new"),
            ("${k${a}}", "z"),
            ("${ z }", "new"),
            ("\\${z}", "${z}"),
            ("${gone:\\${z}}", "${z}"),
            ("${gone\\:x:y}", "y"),
            ("${gone:{x}}", "{x}"),
            ("a ${z", "a ${z"),
            ("${a} ${z", "1 ${z"),
            ("$z {z} $ {z}", "$z {z} $ {z}"),
        ] {
            assert_eq!(resolve(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_says_why() {
        for (text, why) in [
            ("${gone}", "${gone}: no such variable"),
            ("${broken}", "${gone} (from broken)"),
            ("${}", "${}"),
            ("${x}", "circle: x -> y -> x"),
            ("${gone:${x}}", "circle: x -> y -> x"),
        ] {
            assert!(resolve(text).unwrap_err().contains(why), "{text}: {:?}", resolve(text));
        }
        let deep = format!("{}{}", "${a:".repeat(3), "}".repeat(3));
        assert_eq!(resolve(&deep).as_deref(), Ok("1"));
        let deep = format!("{}{}", "${gone:".repeat(100_000), "}".repeat(100_000));
        assert!(resolve(&deep).unwrap_err().contains("within each other"));
        // Never closed: read once, not once for each.
        assert_eq!(resolve(&"${".repeat(100_000)), Ok("${".repeat(100_000)));
    }

    #[test]
    fn values_that_double_each_other_end() {
        let doubling = |leaf: &str| {
            let mut pairs: Vec<_> =
                (0..30).map(|at| (format!("d{at}"), format!("${{d{}}}${{d{}}}", at + 1, at + 1))).collect();
            pairs.push(("d30".to_owned(), leaf.to_owned()));
            let pairs: Vec<_> = pairs.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let (values, none, variables) = (values(&pairs), Values::default(), Variables::default());
            Resolver::new(&none, &variables, vec![&values]).resolve("${d0}").map(Cow::into_owned)
        };
        assert!(doubling("").unwrap_err().contains("too many placeholders"));
        assert!(doubling(&"x".repeat(1000)).unwrap_err().contains("bytes"));
    }
}
