//! The table: `name  value  limit  ok|short`.

use std::process::ExitCode;

/// How often a bar that falls short is measured before it counts as short.
const RUNS: u32 = 3;

/// Prints a line per bar and remembers whether one fell short. A word on the command line selects bars by name.
pub struct Bars {
    words: Vec<String>,
    short: u32,
}

/// Which side of its limit a value has to be on.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Bars {
    /// From the arguments; the options that cargo adds are passed over.
    pub fn from_args() -> Self {
        let words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        println!("{:<58} {:>8}  {:>8}", "name", "value", "limit");
        Self { words, short: 0 }
    }

    /// Whether a bar is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// A bar on something that noise can spoil: it is short when it is short in three runs in a row.
    pub fn noisy(&mut self, name: &str, limit: Limit, mut measure: impl FnMut() -> f64) {
        if !self.wants(name) {
            return;
        }
        let mut value = measure();
        for _ in 1..RUNS {
            if limit.holds(value) {
                break;
            }
            value = measure();
        }
        self.line(name, limit, value);
    }

    /// A bar on something that repeats exactly.
    pub fn exact(&mut self, name: &str, limit: Limit, measure: impl FnOnce() -> f64) {
        if self.wants(name) {
            self.line(name, limit, measure());
        }
    }

    /// A value without a bar.
    pub fn printed(&mut self, name: &str, measure: impl FnOnce() -> f64) {
        if self.wants(name) {
            println!("{name:<58} {:>8.2}  {:>8}  not judged", measure(), "");
        }
    }

    fn line(&mut self, name: &str, limit: Limit, value: f64) {
        let ok = limit.holds(value);
        self.short += u32::from(!ok);
        let (sign, bound) = match limit {
            Limit::AtMost(bound) => ("<=", bound),
            Limit::AtLeast(bound) => (">=", bound),
        };
        let word = if ok { "ok" } else { "short" };
        println!("{name:<58} {value:>8.2}  {sign}{bound:>6.2}  {word}");
    }

    /// What the process returns.
    pub fn exit(self) -> ExitCode {
        if self.short == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}
