//! A recorder that keeps what it is told, by series.
#![allow(dead_code, missing_docs)] // each test crate uses a part

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder as Facade,
    SharedString, Unit,
};

/// What is known of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub count: u64,
    pub gauge: f64,
    pub values: Vec<f64>,
}

/// Series by `name{key=value, ...}`, the labels sorted.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    series: Mutex<BTreeMap<String, Arc<One>>>,
    described: Mutex<BTreeSet<String>>,
    /// How often a handle was asked for.
    asked: Mutex<usize>,
}

#[derive(Debug, Default)]
struct One(Mutex<Series>);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.0.lock().unwrap().count += value;
    }
    fn absolute(&self, _: u64) {
        unreachable!("two balancers of one service would not add up");
    }
}

impl GaugeFn for One {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set");
    }
    fn decrement(&self, _: f64) {
        unreachable!("gauges are set");
    }
    fn set(&self, value: f64) {
        self.0.lock().unwrap().gauge = value;
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().values.push(value);
    }
}

impl Facade for Recorder {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }
    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }
    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

impl Recorder {
    fn describe(&self, name: &KeyName) {
        self.0.described.lock().unwrap().insert(name.as_str().to_owned());
    }

    fn one(&self, key: &Key) -> Arc<One> {
        *self.0.asked.lock().unwrap() += 1;
        let labels: BTreeMap<_, _> = key.labels().map(|label| (label.key(), label.value())).collect();
        let mut name = format!("{}{{", key.name());
        for (at, (key, value)) in labels.iter().enumerate() {
            write!(name, "{}{key}={value}", if at == 0 { "" } else { ", " }).unwrap();
        }
        name.push('}');
        Arc::clone(self.0.series.lock().unwrap().entry(name).or_default())
    }

    /// Every series whose name and labels begin so.
    pub fn all(&self, prefix: &str) -> BTreeMap<String, Series> {
        let series = self.0.series.lock().unwrap();
        let taken = series.iter().filter(|(name, _)| name.starts_with(prefix));
        taken.map(|(name, one)| (name.clone(), one.0.lock().unwrap().clone())).collect()
    }

    /// The one series `name{labels}`.
    #[track_caller]
    pub fn get(&self, series: &str) -> Series {
        match self.all(series).into_iter().find(|(name, _)| name == series) {
            Some((_, series)) => series,
            None => panic!("no series {series}; there are {:#?}", self.names("")),
        }
    }

    pub fn gauge(&self, series: &str) -> f64 {
        self.get(series).gauge
    }

    pub fn count(&self, series: &str) -> u64 {
        self.get(series).count
    }

    pub fn names(&self, prefix: &str) -> Vec<String> {
        self.all(prefix).into_keys().collect()
    }

    pub fn described(&self) -> BTreeSet<String> {
        self.0.described.lock().unwrap().clone()
    }

    /// How many series somebody else holds a handle of.
    pub fn held(&self) -> usize {
        self.0.series.lock().unwrap().values().filter(|one| Arc::strong_count(one) > 1).count()
    }

    pub fn asked(&self) -> usize {
        *self.0.asked.lock().unwrap()
    }
}
