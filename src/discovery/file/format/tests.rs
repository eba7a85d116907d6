use proptest::prelude::*;

use super::*;
use crate::{ServiceId, ServiceInstance, Status, Weight};

const YAML: &str = "\
# a registry
services:
  orders:
    - id: a
      host: 10.0.0.1
      port: 8080
      secure: false
      zone: 010
      weight: 1.50
      status: degraded
      priority: 2
      metadata: {version: 1.10, canary: yes, build: 0x1F, since: 2026-01-01, tags: [x, 'y'], owner: {team: 1e3}}
    - https://[2001:db8::5]:8443/ignored
  Users:
    instances:
    - {uri: 's12:81', metadata: {zone: eu-1a}}
  nobody: []
";

const TOML: &str = r#"
[services]
nobody = []
[[services.orders]]
id = "a"
host = "10.0.0.1"
port = 8080
secure = false
zone = "010"
weight = 1.50
status = "degraded"
priority = 2
metadata = { version = 1.10, canary = "yes", build = "0x1F", since = 2026-01-01, tags = ["x", "y"], owner = { team = 1e3 } }
[[services.orders]]
uri = "https://[2001:db8::5]:8443/ignored"
[services.Users]
instances = [{ uri = "s12:81", metadata = { zone = "eu-1a" } }]
"#;

const JSON: &str = r#"{ "services": {
    "orders": [
        { "id": "a", "host": "10.0.0.1", "port": 8080, "secure": false, "zone": "010", "weight": 1.50,
          "status": "degraded", "priority": 2, "metadata": { "version": 1.10, "canary": "yes", "build": "0x1F",
          "since": "2026-01-01", "tags": ["x", "\u0079"], "owner": { "team": 1e3, "none": null } } },
        "https:\/\/[2001:db8::5]:8443/ignored"
    ],
    "Users": { "instances": [{ "uri": "s12:81", "metadata": { "zone": "eu-1a" } }] },
    "nobody": []
} }"#;

const ALL: [(&str, FileFormat); 3] =
    [(YAML, FileFormat::Yaml), (TOML, FileFormat::Toml), (JSON, FileFormat::Json)];

fn id(text: &str) -> ServiceId {
    ServiceId::new(text).unwrap()
}

fn broken(text: &str, format: FileFormat) -> (usize, usize, String) {
    let broken = parse(text, format).unwrap_err();
    (broken.at.line, broken.at.column, broken.reason)
}

#[test]
fn the_three_formats_say_the_same_and_keep_every_spelling() {
    let registries = ALL.map(|(text, format)| parse(text, format).unwrap());
    for registry in &registries {
        assert_eq!(registry, &registries[0]);
        assert!(registry.notes.is_empty(), "{:?}", registry.notes);
        let orders = registry.list(&id("ORDERS"));
        let (a, b) = (&orders[0], &orders[1]);
        assert_eq!(
            (a.to_string().as_str(), a.secure(), a.zone()),
            ("a (10.0.0.1:8080)", Some(false), Some("010"))
        );
        assert_eq!((a.weight(), a.status(), a.priority()), (Weight::new(1.5).ok(), Status::Degraded, 2));
        let metadata = [
            ("build", "0x1F"),
            ("canary", "yes"),
            ("owner.team", "1e3"),
            ("since", "2026-01-01"),
            ("tags[0]", "x"),
            ("tags[1]", "y"),
            ("version", "1.10"),
        ];
        assert_eq!(a.metadata().iter().collect::<Vec<_>>(), metadata);
        assert_eq!(
            (b.to_string().as_str(), b.secure()),
            ("2001:db8::5:8443 ([2001:db8::5]:8443)", Some(true))
        );
        assert_eq!(registry.list(&id("users"))[0].zone(), Some("eu-1a"));
        assert!(registry.list(&id("nobody")).is_empty() && registry.list(&id("unknown")).is_empty());
        assert_eq!(registry.lists.len(), 3);
    }
}

#[test]
fn the_map_services_may_be_left_out() {
    let registry = parse("orders: [h:1]\nservices: [h:2]\n", FileFormat::Yaml).unwrap();
    assert_eq!(registry.list(&id("orders"))[0].port(), Some(1));
    assert_eq!(registry.list(&id("services"))[0].port(), Some(2));
    let registry = parse("version: 1\nservices: {}\n", FileFormat::Yaml).unwrap();
    assert_eq!((registry.lists.len(), registry.notes.len()), (0, 1));
    assert!(parse("{}", FileFormat::Json).unwrap().lists.is_empty());
    assert!(parse("[services]", FileFormat::Toml).unwrap().lists.is_empty());
}

#[test]
fn case_051_bad_entries_are_left_out_each_with_one_note() {
    let yaml = "orders:\n- {id: a, host: h, port: 8080}\n- {id: b, host: h}\n- {id: b2, host: h, port: null}\n\
                - {id: c, host: h, port: 0}\n- {id: d, host: h, port: -1}\n- {id: e, host: h, port: 70000}\n\
                - {id: f, host: h, port: 80a}\n- {port: 80, id: g}\n- {host: 'a b', id: h}\n- [i]\n-\n\
                - {id: j, host: [h], port: 1}\n- {id: k, host: k, port: 1, weight: many, prot: 1}\n";
    let registry = parse(yaml, FileFormat::Yaml).unwrap();
    let list = registry.list(&id("orders"));
    assert_eq!(list.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["a", "b", "b2", "k"]);
    assert_eq!(list[3].metadata().get("weight"), Some("many"));
    let named = ["c", "d", "e", "f", "g", "h", "line 11", "line 12", "j", "k"];
    assert_eq!(registry.notes.len(), named.len(), "{:#?}", registry.notes);
    for (note, name) in registry.notes.iter().zip(named) {
        assert!(note.text.starts_with(&format!("instance {name:?} of service \"orders\" has ")), "{note:?}");
    }
    for (text, format) in [
        (
            r#"{"orders": [{"id": "f", "host": "h", "port": "80a"}, {"id": "e", "host": "h", "port": 7e4}]}"#,
            FileFormat::Json,
        ),
        (
            "orders = [{id = \"f\", host = \"h\", port = \"80a\"}, {id = \"e\", host = \"h\", port = 70_000}]",
            FileFormat::Toml,
        ),
    ] {
        let registry = parse(text, format).unwrap();
        assert_eq!((registry.list(&id("orders")).len(), registry.notes.len()), (0, 2));
    }
}

#[test]
fn case_046_addresses_in_every_form() {
    let yaml = "orders: ['[2001:db8::5]:8080', {host: '2001:db8::6', port: 8080}, 'http://[::1]:1', {host: '[::1]', port: 1, \
                secure: false}, 'node-3.example.internal:8080', '10.0.0.7:8080', {host: '2001:db8:::5', port: 8080}]";
    let registry = parse(yaml, FileFormat::Yaml).unwrap();
    let list = registry.list(&id("orders"));
    let authorities = list.iter().map(ServiceInstance::authority).collect::<Vec<_>>();
    let (five, six) = ("[2001:db8::5]:8080", "[2001:db8::6]:8080");
    assert_eq!(
        authorities,
        [five, six, "[::1]:1", "[::1]:1", "node-3.example.internal:8080", "10.0.0.7:8080"]
    );
    assert!(list[2].same_identity(&list[3]) && registry.notes.len() == 1);
}

#[test]
fn case_047_names_are_kept_and_bad_ones_left_out_alone() {
    let registry =
        parse("order_service: [h:1]\nORDERS: [h:1]\norders: [h:2]\n'bad id': [h:1]\n", FileFormat::Yaml)
            .unwrap();
    assert_eq!(registry.list(&id("Order_Service")).len(), 1);
    assert_eq!(registry.list(&id("orders.")).len(), 2);
    let note =
        Note { line: 4, text: "\"bad id\" is no service id: it holds a blank; it is left out".to_owned() };
    assert_eq!(registry.notes, [note]);
}

#[test]
fn a_broken_document_names_its_place() {
    for (text, format, line, column) in [
        ("", FileFormat::Yaml, 1, 1),
        ("# nothing\n", FileFormat::Yaml, 2, 1),
        ("---\n", FileFormat::Yaml, 2, 1),
        ("", FileFormat::Toml, 1, 1),
        (" \n", FileFormat::Json, 2, 1),
        ("null", FileFormat::Json, 1, 5),
        ("orders: [h:1", FileFormat::Yaml, 1, 9),
        ("a: [h:1]\nb:\n", FileFormat::Yaml, 2, 3),
        ("services:\n", FileFormat::Yaml, 1, 10),
        ("a: 5\n", FileFormat::Yaml, 1, 4),
        ("a: {host: h}\n", FileFormat::Yaml, 1, 4),
        ("- a\n", FileFormat::Yaml, 1, 1),
        ("a: []\na: []\n", FileFormat::Yaml, 2, 1),
        ("a: []\n---\nb: []\n", FileFormat::Yaml, 2, 1),
        ("[a]: 1\n", FileFormat::Yaml, 1, 1),
        ("a: *b\n", FileFormat::Yaml, 1, 4),
        ("a: &a [*a]\n", FileFormat::Yaml, 1, 8),
        ("a = [\n\"h:1\",\n", FileFormat::Toml, 2, 7),
        ("a = []\na = []\n", FileFormat::Toml, 2, 1),
        ("{\"a\": [\n  \"h:1\",\n", FileFormat::Json, 3, 1),
        ("{\"a\": [],\n \"a\": []}", FileFormat::Json, 2, 2),
        ("{\"a\": [\"\\ud800\"]}", FileFormat::Json, 1, 8),
    ] {
        let (l, c, reason) = broken(text, format);
        assert!(!reason.is_empty() && l == line, "{text:?} breaks at {l}:{c}: {reason}");
        // Parsers differ in where they give up within a line; ours do not.
        if format != FileFormat::Toml {
            assert!(c.abs_diff(column) <= 4, "{text:?} breaks at {l}:{c}: {reason}");
        }
    }
}

#[test]
fn hostile_documents_end() {
    let deep = "[".repeat(100_000);
    for (_, format) in ALL {
        assert!(parse(&deep, format).is_err());
        assert!(parse(&format!("{deep}{}", "]".repeat(100_000)), format).is_err());
    }
    let nested = format!("{{\"a\": {}{}}}", "[".repeat(70), "]".repeat(70));
    assert!(broken(&nested, FileFormat::Json).2.contains("deeper"));
    assert!(broken(&nested, FileFormat::Yaml).2.contains("deeper"));
    let mut bomb = "a0: &a0 [h:1, h:1, h:1, h:1, h:1, h:1, h:1, h:1, h:1]\n".to_owned();
    for level in 1..20 {
        let before = format!("*a{}", level - 1);
        bomb +=
            &["a", &level.to_string(), ": &a", &level.to_string(), " [", &vec![before; 9].join(", "), "]\n"]
                .concat();
    }
    assert!(broken(&bomb, FileFormat::Yaml).2.contains("aliases"));
}

#[test]
fn anchors_and_merges_of_yaml_work() {
    let yaml = "defaults: &d []\nbase: {instances: [&x {host: x, port: 1, zone: z}]}\n\
                orders: [*x, {<<: *x, port: 2}, {<<: [*x], host: y}]\n";
    let list = parse(yaml, FileFormat::Yaml).unwrap().list(&id("orders"));
    assert_eq!(list.iter().map(ServiceInstance::id).collect::<Vec<_>>(), ["x:1", "x:2", "y:1"]);
    assert!(list.iter().all(|instance| instance.zone() == Some("z")));
}

fn instances() -> impl Strategy<Value = Vec<ServiceInstance>> {
    let optional = || (proptest::option::of("[a-z1.:\"\\\\ é#-]{1,6}"), proptest::option::of(any::<bool>()));
    let one = ("[a-z]{1,8}", 1..=u16::MAX, optional(), 0..5_000_u32, proptest::option::of("[a-z+]{1,4}"));
    let metadata = proptest::collection::btree_map("\\PC{1,5}", "\\PC{0,5}", 0..3);
    proptest::collection::vec((one, metadata), 0..5).prop_map(|entries| {
        let build = |((host, port, (text, secure), number, scheme), metadata): (
            _,
            std::collections::BTreeMap<String, String>,
        )| {
            let host: String = host;
            let (text, scheme): (Option<String>, Option<String>) = (text, scheme);
            let (port, secure, number): (u16, Option<bool>, u32) = (port, secure, number);
            let mut builder =
                ServiceInstance::builder(host).port(port).service_id(id("orders")).priority(number % 3);
            builder = builder.metadata(metadata.into_iter().collect::<crate::Metadata>());
            if let Some(text) = text {
                builder = builder.id(text.as_str()).zone(text);
                builder = builder
                    .weight(Weight::new(f64::from(number) / 1_000.0).unwrap())
                    .status(Status::Draining);
            }
            if let Some(secure) = secure {
                builder = builder.secure(secure);
            }
            if let Some(scheme) = scheme.filter(|scheme| !scheme.starts_with('+')) {
                builder = builder.scheme(scheme);
            }
            builder.build().unwrap()
        };
        entries.into_iter().map(build).collect()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(list in instances()) {
        let text = write_document(&id("orders"), &list);
        let registry = parse(&text, FileFormat::Json).unwrap();
        prop_assert_eq!(&registry.list(&id("orders"))[..], &list[..]);
        prop_assert!(registry.notes.is_empty());
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}|[\\[\\]{}:,'\"&*!|> \n\t#a-c0.=\\\\-]{0,60}") {
        for (_, format) in ALL {
            let _ = parse(&text, format);
        }
    }

    #[test]
    fn no_mutation_panics(at in any::<prop::sample::Index>(), with in "\\PC|[\\[\\]{}:,'\"&*!|> \n\t#=\\\\-]", cut in 0..4_usize) {
        for (text, format) in ALL {
            let chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len());
            let rest = chars.len().min(at + cut);
            let mutated: String = chars[..at].iter().copied().chain(with.chars()).chain(chars[rest..].iter().copied()).collect();
            if let Err(broken) = parse(&mutated, format) {
                let lines = mutated.lines().count() + 1;
                prop_assert!((1..=lines).contains(&broken.at.line) && broken.at.column >= 1);
            }
        }
    }
}

#[test]
fn a_document_that_is_cut_short_is_broken_or_a_beginning() {
    for (text, format) in ALL {
        let whole = parse(text, format).unwrap();
        for (end, _) in text.char_indices().filter(|(end, _)| *end < text.trim_end().len()) {
            match parse(&text[..end], format) {
                Err(_) => {}
                Ok(_) if format == FileFormat::Json => panic!("a part of a JSON text was read: {end}"),
                // Block YAML and TOML have no end; whoever writes them renames the file.
                Ok(part) => assert!(part.lists.len() <= whole.lists.len()),
            }
        }
    }
}
