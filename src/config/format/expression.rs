//! Expressions of profiles: `prod`, `!dev`, `prod & (eu | us)`.

/// Parentheses and exclamation marks within each other; more is a text nobody wrote.
const DEEPEST: usize = 32;

/// Whether the active profiles satisfy an expression.
///
/// `!` binds to what follows it; `&` and `|` on one level need parentheses, as in Spring.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn accepts(expression: &str, active: &[String]) -> Result<bool, &'static str> {
    let mut reader = Reader { rest: expression.trim(), active };
    let value = reader.any(0)?;
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err("an expression of profiles that goes on after its end")
    }
}

struct Reader<'a> {
    rest: &'a str,
    active: &'a [String],
}

impl Reader<'_> {
    /// Terms with one operator between them.
    fn any(&mut self, depth: usize) -> Result<bool, &'static str> {
        let mut value = self.term(depth)?;
        let mut between = None;
        while let Some(operator @ ('&' | '|')) = self.rest.chars().next() {
            if *between.get_or_insert(operator) != operator {
                return Err(
                    "& and | on one level of an expression of profiles: parentheses tell what is meant",
                );
            }
            self.step(1);
            let right = self.term(depth)?;
            value = if operator == '&' { value & right } else { value | right };
        }
        Ok(value)
    }

    fn term(&mut self, depth: usize) -> Result<bool, &'static str> {
        if depth > DEEPEST {
            return Err("an expression of profiles with too many levels");
        }
        match self.rest.chars().next() {
            Some('!') => {
                self.step(1);
                Ok(!self.term(depth + 1)?)
            }
            Some('(') => {
                self.step(1);
                let value = self.any(depth + 1)?;
                if !self.rest.starts_with(')') {
                    return Err("an expression of profiles with a parenthesis that is not closed");
                }
                self.step(1);
                Ok(value)
            }
            _ => {
                let end = self.rest.find(['(', ')', '&', '|', '!']).unwrap_or(self.rest.len());
                let name = self.rest[..end].trim();
                if name.is_empty() {
                    return Err("an expression of profiles without the name of one");
                }
                let value = self.active.iter().any(|active| active == name);
                self.step(end);
                Ok(value)
            }
        }
    }

    fn step(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let active = ["prod".to_owned(), "eu west".to_owned()];
        for (expression, wanted) in [
            ("prod", true),
            (" prod ", true),
            ("Prod", false),
            ("dev", false),
            ("!dev", true),
            ("!!prod", true),
            ("! prod", false),
            ("prod & eu west", true),
            ("prod&dev", false),
            ("dev | prod | x", true),
            ("dev | (prod & !test)", true),
            ("(dev | prod) & !(eu west)", false),
            ("((prod))", true),
        ] {
            assert_eq!(accepts(expression, &active), Ok(wanted), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression() {
        for expression in
            ["", "!", "prod &", "& prod", "a & b | c", "(a", "a)", "a (b)", "()", "a !b", "a | | b"]
        {
            assert!(accepts(expression, &[]).is_err(), "{expression}");
        }
        for deep in ["(".repeat(100_000), "!".repeat(100_000)] {
            assert!(accepts(&deep, &[]).is_err());
        }
    }
}
