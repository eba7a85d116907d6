//! From what was written to what holds.

use super::{Properties, eager};
use crate::config::address::{Owner, Unknown};
use crate::config::choices::StageName;
use crate::config::environment::{self, Known};
use crate::config::error::{ConfigError, Issues, Place, Warning};
use crate::config::identity::Identity;
use crate::config::layer::{Layer, Section, Unresolved};
use crate::config::meaningless;
use crate::config::names::{KEYED, MAPS};
use crate::config::placeholder::Resolver;
use crate::config::simple::{self, SimpleInstanceProperties};
#[cfg(feature = "gateway")]
use crate::config::subtree::{self, Subtree};
use crate::config::values::Values;
use crate::config::variables::Variables;
use std::collections::{BTreeMap, HashSet};

/// What tells the client of a subset.
const NUMBERS: [&str; 2] = ["subset.instance-id", "subset.ordinal"];

impl Properties {
    /// Reads again what depends on more than one layer, which is nearly everything: a variable may name the profile whose
    /// file says how the service is spelt that another variable means. Reports everything that is wrong.
    pub(crate) fn settle(mut self, mut issues: Issues) -> Result<Self, ConfigError> {
        #[cfg(feature = "config")]
        {
            let mut files = std::mem::take(&mut self.files);
            let documents = files.choose(&self.values, &self.variables, &mut issues)?;
            let mut layer = Layer::default();
            for document in &documents {
                issues.problems.extend(document.problems.iter().cloned());
                layer.absorb(&document.leaves, &mut issues);
            }
            let values = documents.iter().map(|document| &document.values).collect();
            self.derive(layer, values, &mut issues);
            self.files = files;
        }
        #[cfg(not(feature = "config"))]
        self.derive(Layer::default(), Vec::new(), &mut issues);
        for layer in self.layers() {
            layer.check_routes(&mut issues);
            layer.check_overrides(&mut issues);
        }
        self.instances = self.read_instances(&mut issues);
        self.look_at_subsets(&mut issues);
        if !issues.problems.is_empty() {
            return Err(ConfigError::new(issues.problems));
        }
        issues.warnings.extend(self.accepted.iter().cloned());
        let mut told: HashSet<&Warning> = self.warnings.iter().chain(&self.ignored).collect();
        for warning in issues.warnings.iter().filter(|warning| told.insert(warning)) {
            if warning.accepted {
                tracing::info!(key = %warning.key, %warning, "a property is accepted and has no meaning here");
            } else {
                tracing::warn!(key = %warning.key, %warning, "a property has no effect");
            }
        }
        (self.ignored, self.warnings) = issues.warnings.into_iter().partition(|warning| warning.accepted);
        Ok(self)
    }

    /// Makes the layers from what was written: the file's as it is given, and `values`, all that its documents hold.
    fn derive(&mut self, mut file: Layer, values: Vec<&Values>, issues: &mut Issues) {
        note_others(&self.values, &self.variables, &values, issues);
        #[cfg(feature = "gateway")]
        let documents = values.clone();
        let resolver = Resolver::new(&self.values, &self.variables, values);
        #[cfg(feature = "gateway")]
        {
            let sources = (&self.values, &self.variables, &*documents);
            self.gateway = Subtree::read(&subtree::GATEWAY, sources, &resolver, issues);
        }
        let mut code = self.written.clone();
        let of_code = code.resolve(&resolver, issues);
        let of_file = file.resolve(&resolver, issues);
        let mut known = Known::default();
        for layer in [&file, &code] {
            known.ids.extend(layer.ids.iter().cloned());
            known.ids.extend(eager(layer).into_iter().map(str::to_owned));
            let global = layer.sections.get(&Owner::Global);
            let names = || global.into_iter().flat_map(|section| section.settings.keys());
            let of_map = |name: &String| {
                MAPS.iter().find_map(|map| name.strip_prefix(map)?.strip_prefix('.')).map(str::to_owned)
            };
            known.ids.extend(names().filter_map(of_map));
            let all = layer.sections.values().flat_map(|section| section.settings.keys());
            let media_types = all.filter_map(|name| name.strip_prefix(KEYED)?.strip_prefix('.'));
            known.media_types.extend(media_types.map(str::to_owned));
        }
        let mut environment = environment::read(self.variables.all(), known, issues);
        let of_environment = environment.resolve(&resolver, issues);
        // A value that cannot be had does no harm where another one counts.
        let stronger: [(Vec<Unresolved>, &[&Layer]); 3] =
            [(of_code, &[]), (of_environment, &[&code]), (of_file, &[&code, &environment])];
        for (unresolved, stronger) in stronger {
            let counts = unresolved.into_iter().filter(|one| !one.is_replaced(stronger));
            issues.problems.extend(counts.map(|one| one.problem));
        }
        self.identity = Identity::of(&resolver);
        (self.code, self.environment, self.file) = (code, environment, file);
    }

    /// Warns when the clients of a subset cannot be told from each other: all of them would choose the same instances.
    fn look_at_subsets(&self, issues: &mut Issues) {
        let Some(instance) = self.identity.instance.as_deref().filter(|_| self.identity.shared) else {
            return;
        };
        let told = |owner: &Owner| {
            let mut sections = self.layers().into_iter().filter_map(|layer| layer.sections.get(owner));
            sections.any(|one| NUMBERS.iter().any(|name| one.has(name)))
        };
        if told(&Owner::Global) {
            return;
        }
        for layer in self.layers() {
            for (owner, section) in &layer.sections {
                let subset = |word: &&str| StageName::read(word) == Some(StageName::Subset);
                let Some(setting) = section.setting("configurations") else { continue };
                if section.words("configurations").iter().any(subset) && !told(owner) {
                    let reason = format!(
                        "all processes of the application are \"{instance}\" here, so all of them choose the same \
                         subset: neither a host name (HOSTNAME) nor spring.application.instance_id is known; \
                         subset.instance-id or subset.ordinal tells them apart"
                    );
                    issues.warn(&setting.key, &setting.place, None, reason);
                }
            }
        }
    }

    fn read_instances(&self, issues: &mut Issues) -> Vec<(String, Vec<SimpleInstanceProperties>)> {
        let mut lists: BTreeMap<&Owner, &Section> = BTreeMap::new();
        for layer in self.layers() {
            for (owner, section) in &layer.sections {
                if matches!(owner, Owner::Instances(_)) {
                    lists.entry(owner).or_insert(section);
                }
            }
        }
        lists.into_values().map(|section| (section.id.clone(), simple::read(section, issues))).collect()
    }
}

/// Notes the keys outside our prefixes that have no meaning here.
fn note_others(code: &Values, variables: &Variables, files: &[&Values], issues: &mut Issues) {
    for (key, reason) in meaningless::OTHERS {
        let variable = variables.of_key(key).map(|(name, _)| Place::Environment { variable: name.into() });
        let written = std::iter::once(&code).chain(files).filter_map(|values| values.get(key));
        for place in written.map(|value| value.place.clone()).chain(variable) {
            issues.warnings.push(Unknown::accepted(reason).warning(key, &place));
        }
    }
}
