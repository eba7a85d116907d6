//! From layers to the values that hold.

use super::address::Owner;
use super::balancer::{GlobalProperties, LoadBalancerProperties, trimmed};
use super::choices::Preset;
use super::key::fold;
use super::layer::{self, Layer, Section, Setting};
use super::names::{EAGER, HEALTH_PATH, KEYED, PROPERTIES, Shape, ZONE_WEIGHTS};
use super::overrides;
use super::read;
use std::collections::BTreeMap;

/// Where the values of one service are looked for.
pub(crate) struct Stack<'a> {
    /// Its own values layer by layer, then those of all, strongest first.
    sections: Vec<&'a Section>,
    layers: [&'a Layer; 3],
    own: Owner,
    service: String,
}

impl<'a> Stack<'a> {
    pub(crate) fn of(layers: [&'a Layer; 3], service: &str) -> Self {
        let own = Owner::Service(fold(service));
        let of = |owner: &Owner| layers.map(|layer| layer.sections.get(owner)).into_iter().flatten();
        Self { sections: of(&own).chain(of(&Owner::Global)).collect(), layers, own, service: fold(service) }
    }

    /// The value that counts.
    pub(crate) fn find(&self, name: &str) -> Option<&'a Setting> {
        self.sections.iter().find_map(|section| section.settings.get(name))
    }

    /// The section whose list counts.
    pub(crate) fn list(&self, root: &str) -> Option<&'a Section> {
        self.sections.iter().copied().find(|section| section.has(root))
    }

    /// What a map holds for the service: its own value, by either spelling, layer by layer; else the one of all.
    pub(crate) fn mapped(&self, map: &str) -> Option<&'a Setting> {
        let of = |layer: &'a Layer, owner: &Owner, name: &str| layer.sections.get(owner)?.settings.get(name);
        let listed = format!("{map}.{}", self.service);
        self.layers
            .into_iter()
            .find_map(|layer| of(layer, &self.own, map).or_else(|| of(layer, &Owner::Global, &listed)))
            .or_else(|| self.layers.into_iter().find_map(|layer| of(layer, &Owner::Global, map)))
    }

    /// The entries of a map that is merged entry by entry, in the order of their keys.
    pub(crate) fn entries(&self, map: &str) -> BTreeMap<&'a str, &'a Setting> {
        let mut entries = BTreeMap::new();
        for section in self.sections.iter().rev() {
            let below = section.settings.range(format!("{map}.")..);
            let of = below
                .map_while(|(name, setting)| Some((name.strip_prefix(map)?.strip_prefix('.')?, setting)));
            entries.extend(of);
        }
        entries
    }

    /// The preset that the defaults come from.
    pub(crate) fn preset(&self) -> Preset {
        self.find("preset").and_then(|setting| Preset::read(&setting.text)).unwrap_or_default()
    }
}

/// The values of one service from layers, strongest first.
///
/// Every value was checked when its layer was read, so what a reader refuses here does not occur; it would leave the
/// default.
pub(crate) fn of_service(
    layers: [&Layer; 3],
    service: &str,
    pinned: Option<Preset>,
) -> LoadBalancerProperties {
    let stack = Stack::of(layers, service);
    let mut properties = LoadBalancerProperties::for_preset(pinned.unwrap_or_else(|| stack.preset()));
    for property in PROPERTIES {
        let _ = match property.shape {
            Shape::One(read) => stack.find(property.name).map(|setting| read(&mut properties, &setting.text)),
            Shape::List(read) => {
                stack.list(property.name).map(|section| read(&mut properties, &section.words(property.name)))
            }
        };
    }
    properties.preset = pinned.unwrap_or(properties.preset);
    if let Some(section) = stack.list("overrides") {
        let whole = overrides::all(section).into_iter().filter_map(|(whole, _)| whole.ok());
        properties.overrides = whole.filter(|one| one.concerns(service)).collect();
    }
    if let Some(section) = stack.list("routing") {
        properties.routing = layer::routes(section).into_iter().map(|(route, ..)| route).collect();
    }
    for (of, setting) in stack.entries(KEYED) {
        let _ = read::read_media_type(&mut properties, of, &setting.text);
    }
    for (zone, setting) in stack.entries(ZONE_WEIGHTS) {
        let _ = read::read_zone_weight(&mut properties, zone, &setting.text);
    }
    properties.hint = stack.mapped("hint").and_then(|setting| trimmed(&setting.text));
    if let Some(path) = stack.mapped(HEALTH_PATH) {
        path.text.trim().clone_into(&mut properties.health_check.path);
    }
    properties
}

/// The values of the process from layers, strongest first.
pub(crate) fn of_process(layers: [&Layer; 3]) -> GlobalProperties {
    let globals = layers.into_iter().filter_map(|layer| layer.sections.get(&Owner::Global));
    let eager = globals.into_iter().find(|section| section.has(EAGER)).map(|section| section.words(EAGER));
    GlobalProperties::default()
        .with_eager_load(eager.unwrap_or_default())
        .with_cache_capacity(of_service(layers, "", None).cache.capacity)
}
