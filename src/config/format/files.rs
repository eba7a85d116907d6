//! The file layer as it was read: the documents of a file, and those of its profiles beside it.

use super::document::Document;
use super::load::{Format, read_file, read_text};
use super::profiles::{self, Untold};
use crate::config::error::{ConfigError, Issues, Place};
use crate::config::placeholder::Resolver;
use crate::config::values::{Value, Values};
use crate::config::variables::Variables;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The documents, and which profiles they were chosen for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// The file; a text has none, and no files of profiles beside it.
    path: Option<PathBuf>,
    documents: Arc<Vec<Document>>,
    /// The files of profiles that were looked for, those that do not exist as well.
    of_profiles: BTreeMap<String, Arc<Vec<Document>>>,
    /// The profiles that the code names.
    pub(crate) named: Option<Vec<String>>,
    /// The profiles that are active.
    pub(crate) active: Vec<String>,
}

/// What only a document for every profile may say: it decides which the profiles are.
const FOR_ALL_ONLY: [&str; 3] =
    ["spring.profiles.active", "spring.profiles.include", "spring.profiles.default"];

impl Files {
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let documents = Arc::new(read_file(path)?);
        Ok(Self { path: Some(path.to_owned()), documents, ..Self::default() })
    }

    pub(crate) fn of_text(bytes: &[u8], format: Format, name: &str) -> Result<Self, ConfigError> {
        let documents = Arc::new(read_text(bytes, format, &name.into())?);
        Ok(Self { documents, ..Self::default() })
    }

    /// The files these properties come from: the first, and the one of each active profile, whether it exists or not.
    #[cfg(feature = "file")]
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let beside = self.active.iter().filter_map(|profile| self.beside(profile));
        self.path.iter().cloned().chain(beside).collect()
    }

    /// The documents that count, weakest first: those of the file, then those of each profile's file.
    ///
    /// Reads the files of profiles that became active.
    pub(crate) fn choose(
        &mut self,
        code: &Values,
        variables: &Variables,
        issues: &mut Issues,
    ) -> Result<Vec<&Document>, ConfigError> {
        let for_all = self.documents.iter().filter(|document| !profiles::is_conditional(document));
        let resolver = Resolver::new(code, variables, for_all.map(|document| &document.values).collect());
        let active = profiles::active(self.named.as_deref(), &resolver);
        let platform = profiles::platform(&resolver, variables);
        self.active = active.unwrap_or_else(|why| {
            match why {
                Untold::TooMany => {
                    issues.warn("spring.profiles", &self.place(), None, Untold::too_many());
                }
                // Without them the values of another profile would be in force.
                Untold::Unknown { key, why } => {
                    let (text, place) = resolver.written(&key).unwrap_or(("", self.place()));
                    let reason = format!("which profiles are active cannot be told: {why}");
                    issues.refuse_because(&key, text, &place, reason);
                }
            }
            Vec::new()
        });
        for profile in &self.active {
            if self.of_profiles.contains_key(profile) {
                continue;
            }
            let documents = match self.beside(profile) {
                Some(path) if path.exists() => read_file(&path)?,
                _ => Vec::new(),
            };
            self.of_profiles.insert(profile.clone(), Arc::new(documents));
        }
        let mut chosen = Vec::new();
        let beside = self.active.iter().filter_map(|profile| self.of_profiles.get(profile));
        let beside = beside.flat_map(|documents| documents.iter().map(|document| (document, true)));
        let own = self.documents.iter().map(|document| (document, profiles::is_conditional(document)));
        for (document, conditional) in own.chain(beside) {
            match profiles::accepts(document, &self.active, platform.as_deref(), &resolver) {
                Ok(true) => {
                    remark(document, conditional, issues);
                    chosen.push(document);
                }
                Ok(false) => {}
                // Who writes nothing for us in such a document need not hear of it from us.
                Err(why) => {
                    if let Some(leaf) = document.leaves.first() {
                        let key = crate::config::key::render(&leaf.path);
                        let reason = format!("the document cannot be used: {why}");
                        issues.refuse_because(
                            &key,
                            leaf.text.as_deref().unwrap_or_default(),
                            &leaf.place,
                            reason,
                        );
                    }
                }
            }
        }
        Ok(chosen)
    }

    fn place(&self) -> Place {
        let name = self.path.as_ref().map_or_else(|| "the text".into(), |path| path.display().to_string());
        Place::File { name: name.into(), line: None }
    }

    /// The file of a profile, beside the first: `application-prod.yml` beside `application.yml`. None for a name that
    /// could lead elsewhere.
    fn beside(&self, profile: &str) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let plain = profile.chars().all(|c| c.is_alphanumeric() || "-_.+@ ".contains(c));
        let (stem, extension) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
        plain.then(|| path.with_file_name(format!("{stem}-{profile}.{extension}")))
    }
}

/// Says what a document that counts asks for in vain.
fn remark(document: &Document, conditional: bool, issues: &mut Issues) {
    let places = |key: &str| document.values.list(key).unwrap_or_default();
    if conditional {
        for key in FOR_ALL_ONLY {
            if let Some(Value { place, .. }) = places(key).first() {
                let reason = "not read in a document or file that is for some profiles only";
                issues.warn(key, place, None, reason);
            }
        }
    }
    for Value { text, place } in places("spring.config.import") {
        for location in crate::config::read::comma_list(text) {
            let reason = format!("imports are not read: the values of {location} are unknown here");
            issues.warn("spring.config.import", place, None, reason);
        }
    }
}
