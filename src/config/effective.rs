//! From layers to the values that hold.

use super::address::Owner;
use super::balancer::{GlobalProperties, LoadBalancerProperties, trimmed};
use super::choices::Preset;
use super::key::fold;
use super::layer::{self, Layer, Section};
use super::names::{EAGER, HEALTH_PATH, PROPERTIES, Shape};

/// The values of one service from layers, strongest first.
///
/// Every value was checked when its layer was read, so what a reader refuses here does not occur; it would leave the
/// default.
pub(crate) fn of_service(layers: [&Layer; 3], service: &str) -> LoadBalancerProperties {
    let own = Owner::Service(fold(service));
    let of = |owner: &Owner| layers.map(|layer| layer.sections.get(owner)).into_iter().flatten();
    let stack: Vec<&Section> = of(&own).chain(of(&Owner::Global)).collect();
    let find = |name: &str| stack.iter().find_map(|section| section.settings.get(name));
    let list = |root: &str| stack.iter().copied().find(|section| section.has(root));

    let preset = find("preset").and_then(|setting| Preset::read(&setting.text)).unwrap_or_default();
    let mut properties = LoadBalancerProperties::for_preset(preset);
    for property in PROPERTIES {
        let _ = match property.shape {
            Shape::One(read) => find(property.name).map(|setting| read(&mut properties, &setting.text)),
            Shape::List(read) => {
                list(property.name).map(|section| read(&mut properties, &section.words(property.name)))
            }
        };
    }
    if let Some(section) = list("routing") {
        properties.routing = layer::routes(section).into_iter().map(|(route, ..)| route).collect();
    }
    properties.hint = mapped(layers, &own, service, "hint").and_then(|text| trimmed(&text));
    if let Some(path) = mapped(layers, &own, service, HEALTH_PATH) {
        path.trim().clone_into(&mut properties.health_check.path);
    }
    properties
}

/// What a map holds for one service: its own value, by either spelling, layer by layer; else the one of all.
fn mapped(layers: [&Layer; 3], own: &Owner, service: &str, map: &str) -> Option<String> {
    let of = |layer: &Layer, owner: &Owner, name: &str| {
        Some(layer.sections.get(owner)?.settings.get(name)?.text.clone())
    };
    let listed = format!("{map}.{}", fold(service));
    layers
        .into_iter()
        .find_map(|layer| of(layer, own, map).or_else(|| of(layer, &Owner::Global, &listed)))
        .or_else(|| layers.into_iter().find_map(|layer| of(layer, &Owner::Global, map)))
}

/// The values of the process from layers, strongest first.
pub(crate) fn of_process(layers: [&Layer; 3]) -> GlobalProperties {
    let globals = layers.into_iter().filter_map(|layer| layer.sections.get(&Owner::Global));
    let eager = globals.into_iter().find(|section| section.has(EAGER)).map(|section| section.words(EAGER));
    GlobalProperties::default()
        .with_eager_load(eager.unwrap_or_default())
        .with_cache_capacity(of_service(layers, "").cache.capacity)
}
