//! Which profiles are active, and which documents are for them.

use super::document::Document;
use super::expression;
use crate::config::key::uniform;
use crate::config::placeholder::Resolver;
use crate::config::read::comma_list;
use crate::config::variables::Variables;

/// Profiles at the same time: each may have a file of its own.
const MOST: usize = 64;

/// Where Spring says which profiles a document is for; the second is the way before Spring Boot 2.4.
const FOR_PROFILES: [&str; 2] = ["spring.config.activate.on-profile", "spring.profiles"];

const FOR_PLATFORM: &str = "spring.config.activate.on-cloud-platform";

/// Why it cannot be told which profiles are active.
#[derive(Debug)]
pub(crate) enum Untold {
    /// There are more than anybody means.
    TooMany,
    /// The key that says it cannot be resolved.
    Unknown { key: String, why: String },
}

impl Untold {
    /// What is told of [`Untold::TooMany`].
    pub(crate) fn too_many() -> String {
        format!("no profile is active, since they cannot be told: more than {MOST} profiles")
    }
}

/// The profiles in the order in which their files are read, so that the last one wins: the included ones, then the
/// active ones, each followed by the members of its group; if there are none, the default ones.
///
/// Which are included is said by all sources together, as in Spring; everything else by the strongest that says it.
pub(crate) fn active(named: Option<&[String]>, resolver: &Resolver<'_>) -> Result<Vec<String>, Untold> {
    let words = |key: &str| resolver.words(key).map_err(|why| Untold::Unknown { key: key.to_owned(), why });
    let included = "spring.profiles.include";
    let mut wanted =
        resolver.words_of_all(included).map_err(|why| Untold::Unknown { key: included.to_owned(), why })?;
    wanted.extend(match named {
        Some(named) => named.to_vec(),
        None => words("spring.profiles.active")?.unwrap_or_default(),
    });
    if wanted.is_empty() {
        wanted = words("spring.profiles.default")?.unwrap_or_else(|| vec!["default".to_owned()]);
    }
    let mut profiles: Vec<String> = Vec::new();
    // A stack, so that a group's members follow its name.
    wanted.reverse();
    while let Some(profile) = wanted.pop() {
        if profiles.contains(&profile) {
            continue;
        }
        if profiles.len() >= MOST {
            return Err(Untold::TooMany);
        }
        let members = words(&format!("spring.profiles.group.{profile}"))?.unwrap_or_default();
        wanted.extend(members.into_iter().rev());
        profiles.push(profile);
    }
    Ok(profiles)
}

/// Whether a document says for whom it is.
pub(crate) fn is_conditional(document: &Document) -> bool {
    let platform = document.values.list(FOR_PLATFORM).is_some();
    platform || conditions(document).any(|condition| comma_list(condition).next().is_some())
}

/// Whether a document is for these profiles and this platform.
///
/// # Errors
///
/// What is wrong with the expression that says so, or with a placeholder in it.
pub(crate) fn accepts(
    document: &Document,
    active: &[String],
    platform: Option<&str>,
    resolver: &Resolver<'_>,
) -> Result<bool, String> {
    let mut platforms = document
        .values
        .list(FOR_PLATFORM)
        .into_iter()
        .flatten()
        .flat_map(|value| comma_list(&value.text))
        .peekable();
    if platforms.peek().is_some() && !platforms.any(|one| uniform(one) == uniform(platform.unwrap_or("none")))
    {
        return Ok(false);
    }
    let mut accepted = None;
    for condition in conditions(document) {
        for expression in comma_list(&resolver.resolve(condition)?) {
            let one = expression::accepts(expression, active)?;
            accepted = Some(accepted.unwrap_or(false) | one);
        }
    }
    Ok(accepted.unwrap_or(true))
}

/// Comma lists of expressions, as written.
fn conditions(document: &Document) -> impl Iterator<Item = &str> {
    let lists = FOR_PROFILES.into_iter().filter_map(|key| document.values.list(key));
    lists.flatten().map(|value| value.text.as_str())
}

/// The platform this process runs on, as far as its variables tell.
pub(crate) fn platform(resolver: &Resolver<'_>, variables: &Variables) -> Option<String> {
    const SIGNS: [(&str, &str); 5] = [
        ("VCAP_APPLICATION", "cloud-foundry"),
        ("DYNO", "heroku"),
        ("NOMAD_ALLOC_ID", "nomad"),
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
        ("WEBSITE_SITE_NAME", "azure-app-service"),
    ];
    resolver.value("spring.main.cloud-platform").or_else(|| {
        let (_, platform) = SIGNS.into_iter().find(|(sign, _)| variables.of_key(sign).is_some())?;
        Some(platform.to_owned())
    })
}
