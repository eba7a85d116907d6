//! `application-<profile>.yml` beside `application.yml`.

use super::*;
use evenkeel::config::LiveProperties;
use std::path::{Path, PathBuf};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("application.yml")
    }
}

fn read(path: &Path, profiles: &str) -> Properties {
    let variables = [("SPRING_PROFILES_ACTIVE", profiles)];
    Properties::default().with_environment(variables).unwrap().with_file(path).unwrap()
}

fn values(properties: &Properties) -> (String, u64) {
    let orders = properties.effective("orders");
    (orders.zone.unwrap_or_default(), orders.cache.ttl.as_secs())
}

#[test]
fn the_file_of_a_profile_counts_over_the_plain_one() {
    let folder = Folder::new(&[
        (
            "application.yml",
            "evenkeel: {zone: '${where:plain}', cache.ttl: 1s}\n---\nspring.config.activate.on-profile: a\nevenkeel.zone: a-within\n",
        ),
        ("application-a.yml", "evenkeel.zone: a\nwhere: there\n"),
        (
            "application-b.yml",
            "evenkeel: {cache.ttl: 3s}\n---\nspring.config.activate.on-profile: a\nevenkeel.cache.ttl: 4s\n",
        ),
        ("application-default.yml", "where: default\n"),
        ("application-c.yaml", "evenkeel.zone: another ending\n"),
    ]);
    let file = folder.file();
    for (profiles, zone, ttl) in [
        ("", "default", 1),
        ("a", "a", 1),
        ("b", "plain", 3),
        ("a,b", "a", 4),
        ("b,a", "a", 4),
        ("c", "plain", 1),
        ("../application-a", "plain", 1),
    ] {
        assert_eq!(values(&read(&file, profiles)), (zone.to_owned(), ttl), "{profiles}");
    }
    // Whichever comes first, the profiles or the file.
    let late = Properties::default().with_file(&file).unwrap();
    assert_eq!(values(&late), ("default".into(), 1));
    let late = late.with_environment([("SPRING_PROFILES_ACTIVE", "a")]).unwrap();
    assert_eq!(values(&late), ("a".into(), 1));
    assert_eq!(values(&late.with_profiles(["b"]).unwrap()), ("plain".into(), 3));
    // A text has no file beside it.
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(values(&yaml(&text)), ("plain".into(), 1));
}

#[test]
fn places_name_the_file_of_the_profile() {
    let folder = Folder::new(&[
        ("application.yml", "evenkeel.zone: a\n"),
        ("application-p.yml", "\nevenkeel.zone: b\n"),
    ]);
    let report = read(&folder.file(), "p").report("orders");
    assert!(report.get("zone").unwrap().origin.to_string().ends_with("application-p.yml:2"), "{report}");
    folder.write("application-p.yml", "spring.profiles.active: q\nevenkeel: {cache.ttl: soon, zonee: a}\n");
    let named = Properties::default().with_profiles(["p"]).unwrap();
    let error = named.clone().with_file(folder.file()).unwrap_err().to_string();
    assert!(error.contains("application-p.yml:2: evenkeel.cache.ttl"), "{error}");
    folder.write("application-p.yml", "spring.profiles.active: q\nevenkeel: {zonee: a}\n");
    let properties = named.clone().with_file(folder.file()).unwrap();
    let told: Vec<_> = properties.warnings().iter().map(ToString::to_string).collect();
    assert!(told.len() == 2 && told.iter().all(|one| one.contains("application-p.yml")), "{told:?}");
    assert_eq!(properties.profiles(), ["p"]);
    folder.write("application-p.yml", "a: [\n");
    assert!(named.with_file(folder.file()).unwrap_err().to_string().contains("application-p.yml"));
}

#[test]
fn a_reload_reads_the_files_of_profiles_again() {
    let folder = Folder::new(&[("application.yml", "evenkeel: {zone: a, cache.ttl: 1s}\n")]);
    let live = LiveProperties::new(read(&folder.file(), "p"));
    assert_eq!(values(&live.current()), ("a".into(), 1));
    folder.write("application-p.yml", "evenkeel.zone: p\n");
    assert!(live.reload_file(folder.file()).unwrap());
    assert_eq!(values(&live.current()), ("p".into(), 1));
    folder.write("application-p.yml", "evenkeel.zone: ${gone}\n");
    assert!(live.reload_file(folder.file()).is_err());
    assert_eq!(values(&live.current()), ("p".into(), 1), "the last good ones");
    std::fs::remove_file(folder.path("application-p.yml")).unwrap();
    assert!(live.reload_file(folder.file()).unwrap());
    assert_eq!(values(&live.current()), ("a".into(), 1));
}

#[test]
fn toml_and_json_have_files_of_profiles_too() {
    let folder = Folder::new(&[
        ("app.toml", "spring.profiles.active = \"p\"\nevenkeel.zone = \"a\"\n"),
        ("app-p.toml", "evenkeel.zone = \"${x:b}\"\n"),
        ("app.json", "{\"evenkeel.zone\": \"a\", \"spring\": {\"profiles\": {\"active\": [\"p\"]}}}"),
        ("app-p.json", "{\"evenkeel.zone\": \"c\"}"),
    ]);
    let zone = |name: &str| values(&Properties::default().with_file(folder.path(name)).unwrap()).0;
    assert_eq!((zone("app.toml"), zone("app.json")), ("b".into(), "c".into()));
}
