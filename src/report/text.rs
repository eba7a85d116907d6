//! The readable forms of a report: `TEXT cpu_utilization=0.3,named_metrics.queue=7` and `JSON {"cpu_utilization": 0.3}`.
//!
//! The JSON reader knows just what such a report holds, an object of numbers and of objects of numbers, and passes over
//! the rest: a library for it would be a dependency of the core.

use std::borrow::Cow;

use super::LoadReport;

/// How deep what is passed over may be nested.
const DEPTH: u32 = 16;

/// Reads `name=value` pairs.
pub(super) fn pairs(text: &str) -> Result<LoadReport, String> {
    let mut report = LoadReport::default();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').or_else(|| pair.split_once(':')).unwrap_or((pair, ""));
        put(&mut report, None, name.trim(), number(name, value)?);
    }
    Ok(report)
}

/// Reads a JSON object.
pub(super) fn json(text: &str) -> Result<LoadReport, String> {
    let mut reader = Json(text);
    let mut report = LoadReport::default();
    reader.object(&mut |reader, name| {
        if reader.next_is('{') {
            reader.object(&mut |reader, inner| {
                if let Some(value) = reader.number(inner)? {
                    put(&mut report, Some(name), inner, value);
                }
                Ok(())
            })
        } else {
            if let Some(value) = reader.number(name)? {
                put(&mut report, None, name, value);
            }
            Ok(())
        }
    })?;
    match reader.0.trim() {
        "" => Ok(report),
        rest => Err(format!("{:?} stands behind the object", short(rest))),
    }
}

fn number(name: &str, text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| format!("{:?} of {:?} is no number", short(text), short(name)))
}

/// So much of a text as an error quotes.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Puts a number where its name says; a name that nobody knows is for somebody else. Case and underscores do not matter, since
/// JSON has them as `cpuUtilization`, too.
fn put(report: &mut LoadReport, map: Option<&str>, name: &str, value: f64) {
    let (map, name) = match (map, name.split_once('.')) {
        (Some(map), _) => (Some(map), name),
        (None, Some((map, name))) => (Some(map), name),
        (None, None) => (None, name),
    };
    let plain = |text: &str| text.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    let Some(map) = map else {
        match plain(name).as_str() {
            "cpuutilization" => report.cpu_utilization = value,
            "memutilization" => report.mem_utilization = value,
            "applicationutilization" => report.application_utilization = value,
            "rpsfractional" | "qps" => report.qps = value,
            // The older field, in whole numbers.
            "rps" if report.qps == 0.0 => report.qps = value,
            "eps" => report.eps = value,
            _ => {}
        }
        return;
    };
    let map = match plain(map).as_str() {
        "utilization" => &mut report.utilization,
        "requestcost" => &mut report.request_cost,
        "namedmetrics" => &mut report.named_metrics,
        _ => return,
    };
    map.insert(name.to_owned(), value);
}

/// What is left to be read.
struct Json<'a>(&'a str);

/// Reads the value of a name.
type Member<'m, 'a> = &'m mut dyn FnMut(&mut Json<'a>, &str) -> Result<(), String>;

impl<'a> Json<'a> {
    fn next_is(&mut self, c: char) -> bool {
        self.0 = self.0.trim_start();
        self.0.starts_with(c)
    }

    fn take(&mut self, c: char) -> bool {
        let is = self.next_is(c);
        if is {
            self.0 = &self.0[c.len_utf8()..];
        }
        is
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(format!("{c:?} is expected at {:?}", short(self.0))) }
    }

    /// An object, whose members are read by `member`.
    fn object(&mut self, member: Member<'_, 'a>) -> Result<(), String> {
        self.expect('{')?;
        if self.take('}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(':')?;
            member(self, &name)?;
            if self.take('}') {
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        self.expect('"')?;
        let text = self.0;
        let mut plain = Cow::Borrowed("");
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &text[at + 1..];
                    return Ok(plain);
                }
                '\\' => {
                    let c = match chars.next().map(|(_, c)| c) {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some('r') => '\r',
                        Some(c @ ('"' | '\\' | '/')) => c,
                        Some('u') => {
                            let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                            let code = u32::from_str_radix(&digits, 16).ok();
                            code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
                        }
                        _ => char::REPLACEMENT_CHARACTER,
                    };
                    plain.to_mut().push(c);
                }
                // As long as nothing is escaped it is a part of the text.
                c => match &mut plain {
                    Cow::Borrowed(part) => *part = &text[..at + c.len_utf8()],
                    Cow::Owned(text) => text.push(c),
                },
            }
        }
        Err("a text does not end".to_owned())
    }

    /// A number, also as a text; `None` for a value that is none, which is passed over.
    fn number(&mut self, name: &str) -> Result<Option<f64>, String> {
        if self.next_is('"') {
            let text = self.string()?;
            return number(name, &text).map(Some);
        }
        if self.next_is('{') || self.next_is('[') {
            return self.skip(DEPTH).map(|()| None);
        }
        let word = self.word();
        match word {
            "true" | "false" | "null" => Ok(None),
            _ => number(name, word).map(Some),
        }
    }

    /// A number or a word.
    fn word(&mut self) -> &'a str {
        self.0 = self.0.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// Passes over a value.
    fn skip(&mut self, depth: u32) -> Result<(), String> {
        let depth = depth.checked_sub(1).ok_or("it is nested too deep")?;
        if self.next_is('{') {
            return self.object(&mut |reader, _| reader.skip(depth));
        }
        if self.take('[') {
            while !self.take(']') {
                self.skip(depth)?;
                if !self.take(',') && !self.next_is(']') {
                    return self.expect(']');
                }
            }
            return Ok(());
        }
        if self.next_is('"') {
            return self.string().map(|_| ());
        }
        if self.word().is_empty() { Err(format!("{:?} is no value", short(self.0))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> LoadReport {
        LoadReport::default()
            .with_cpu_utilization(0.3)
            .with_mem_utilization(0.8)
            .with_application_utilization(1.5)
            .with_qps(10.0)
            .with_eps(0.5)
            .with_utilization("disk", 0.25)
            .with_request_cost("rows", 12.0)
            .with_named_metric("queue", -7.0)
    }

    #[test]
    fn lbs_orca_as_text() {
        let text = "cpu_utilization=0.3, mem_utilization=.8 ,application_utilization=1.5,rps_fractional=1e1,eps=0.5,\
                    utilization.disk=0.25,request_cost.rows=12,named_metrics.queue=-7,somebody.else=3,other=1,";
        assert_eq!(pairs(text), Ok(expected()));
        assert_eq!(pairs(" "), Ok(LoadReport::default()));
        assert_eq!(pairs("rps=7"), Ok(LoadReport::default().with_qps(7.0)));
        for (text, quoted) in [
            ("eps=x", "\"x\" of \"eps\""),
            ("eps", "\"\" of \"eps\""),
            ("eps=NaN", "NaN"),
            ("eps=inf", "inf"),
        ] {
            let error = pairs(text).unwrap_err();
            assert!(error.contains(quoted), "{error}");
        }
    }

    #[test]
    fn lbs_orca_as_json() {
        let text = r#" {"cpu_utilization": 0.3, "memUtilization": "0.8", "application_utilization":1.5,
            "rps_fractional": 10, "eps": 5e-1, "utilization": {"disk": 0.25}, "requestCost": {"r\u006fws": 12},
            "named_metrics": {"queue": -7, "nothing": null}, "more": [1, {"a": ["b"]}, "]"], "deep": {"a": {"b": 1}},
            "flag": true, "rps": 3} "#;
        assert_eq!(json(text), Ok(expected()));
        assert_eq!(json("{}"), Ok(LoadReport::default()));
        for (text, quoted) in [
            ("", "'{' is expected"),
            ("{", "'\"' is expected"),
            (r#"{"eps""#, "':' is expected"),
            (r#"{"eps": }"#, "is no number"),
            (r#"{"eps": 1 2}"#, "',' is expected"),
            (r#"{"eps": "x"}"#, "\"x\" of \"eps\""),
            (r#"{"eps": 1} x"#, "behind the object"),
            (r#"{"eps"#, "does not end"),
            (r#"{"a": [1 2]}"#, "']' is expected"),
        ] {
            let error = json(text).unwrap_err();
            assert!(error.contains(quoted), "{text}: {error}");
        }
        let deep = format!(r#"{{"a": {}1{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
        assert!(json(&deep).unwrap_err().contains("too deep"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_written_breaks_it(text in ".{0,60}", json_like in "[\\[\\]{}\":,.0-9a-z\\\\ ]{0,60}") {
            let _ = (pairs(&text), json(&text), json(&json_like), json(&format!("{{{json_like}}}")));
        }
    }
}
