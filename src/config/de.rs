//! Serde for the values of one service.
//!
//! A derived `Deserialize` would fill gaps with one fixed set of defaults, whatever preset the text names. So the
//! text is read as a layer of its own, with the same names, spellings and checks as a file.

use super::address::{self, Owner, Prefix};
use super::balancer::LoadBalancerProperties;
use super::effective;
use super::error::{Issues, Place};
use super::key::{self, Token};
use super::layer::{Found, Layer, Leaf, Setting};
use super::names::EAGER;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Names and values are those of a file below the prefix. Unknown names and all bad values are one error; numbers
/// that the format has read as numbers are written as Rust writes them.
impl<'de> Deserialize<'de> for LoadBalancerProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut leaves = Vec::new();
        Walk { path: &mut Vec::new(), leaves: &mut leaves, depth: 0 }.deserialize(deserializer)?;
        let (layer, problems) = layer(leaves);
        if problems.is_empty() {
            let none = Layer::default();
            return Ok(effective::of_service([&layer, &none, &none], "", None));
        }
        Err(D::Error::custom(problems.join("; ")))
    }
}

fn layer(leaves: Vec<Leaf>) -> (Layer, Vec<String>) {
    let mut problems = Vec::new();
    let mut issues = Issues::default();
    let mut layer = Layer::default();
    let mut found = Vec::new();
    for leaf in leaves {
        let Some(text) = leaf.text else { continue };
        let setting = Setting { key: key::render(&leaf.path), text, place: leaf.place };
        match address::address(Prefix::Evenkeel, &leaf.path) {
            Ok(address) if address.owner == Owner::Global && address.root() != EAGER => {
                found.push(Found { address, prefix: Prefix::Evenkeel, setting });
            }
            Ok(_) => problems.push(format!("{}: not a property of one service", setting.key)),
            Err(unknown) => {
                let near = unknown.nearest.as_deref().and_then(|name| name.strip_prefix("evenkeel."));
                let near = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                problems.push(format!("{}: {}{near}", setting.key, unknown.reason));
            }
        }
    }
    layer.take(found, &mut issues);
    layer.check(&mut issues);
    layer.check_routes(&mut issues);
    layer.check_overrides(&mut issues);
    // The place says nothing here: the format knows it.
    problems.extend(issues.problems.iter().map(|bad| bad.to_string().replacen("code: ", "", 1)));
    (layer, problems)
}

/// Collects the leaves of whatever the format holds.
struct Walk<'a> {
    path: &'a mut Vec<Token>,
    leaves: &'a mut Vec<Leaf>,
    depth: usize,
}

impl Walk<'_> {
    /// Our deepest key has five levels; a format without a limit of its own must not run down the stack.
    const DEEPEST: usize = 64;

    fn leaf<E: Error>(self, text: Option<String>) -> Result<(), E> {
        if self.depth == 0 {
            return Err(E::custom("the properties of a load balancer are a map"));
        }
        self.leaves.push(Leaf { path: self.path.clone(), text, place: Place::Code });
        Ok(())
    }

    fn below(&mut self) -> Walk<'_> {
        Walk { path: &mut *self.path, leaves: &mut *self.leaves, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > Self::DEEPEST {
            return Err(D::Error::custom("nested too deep"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the properties of a load balancer")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.leaf(Some(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.leaf(Some(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.leaf(Some(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.leaf(Some(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.leaf(Some(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.leaf(None)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.leaf(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut at = 0;
        loop {
            self.path.push(Token::Index { at, node: self.depth });
            let more = items.next_element_seed(self.below())?.is_some();
            self.path.pop();
            if !more {
                break;
            }
            at += 1;
            if at >= key::LONGEST_LIST {
                return Err(A::Error::custom("a list that is too long"));
            }
        }
        if at == 0 { self.leaf(Some(String::new())) } else { Ok(()) }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            let length = self.path.len();
            key::split(&key, self.depth, self.path);
            if self.path.len() > Self::DEEPEST {
                return Err(A::Error::custom("a key of too many names"));
            }
            entries.next_value_seed(self.below())?;
            self.path.truncate(length);
        }
        Ok(())
    }
}
