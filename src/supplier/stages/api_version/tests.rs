use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn version(text: &str) -> Option<(u32, u32, u32)> {
    Version::read(text).map(|v| (v.major, v.minor, v.patch))
}

#[test]
fn a_version_is_read_as_springs_semantic_parser_does() {
    for text in ["1", "1.0", "1.0.0", "v1", "version 1.0", "v-1.0.0", "01.00"] {
        assert_eq!(version(text), Some((1, 0, 0)), "{text:?}");
    }
    assert_eq!(version("1.20.3"), Some((1, 20, 3)));
    assert_eq!(version("4294967295.0.1"), Some((u32::MAX, 0, 1)));
    for text in [
        "",
        "v",
        "abc",
        "1.0-beta",
        "1.",
        ".",
        "1..2",
        "1.2.3.4",
        "1.x",
        "1 .2",
        "1,2",
        "4294967296",
        "1.-2",
        "1.+2",
        "\u{661}",
        "1\u{661}",
    ] {
        assert_eq!(version(text), None, "{text:?}");
    }
    assert_eq!(version(".5"), Some((5, 0, 0)), "a dot is no digit, so it is skipped");
    assert_eq!(version(&"9".repeat(300)), None);
    assert_eq!(version(&format!("{}1", " ".repeat(300))), None);
}

/// Whether `version` is in the first alternative of a range that has it, by the range's own intervals.
fn holds(range: &str, text: &str) -> Option<bool> {
    let place = Version::read(text).unwrap().place();
    let mut held = false;
    range::read(range, |interval| held |= interval.contains(&place))?;
    Some(held)
}

#[test]
fn ranges_mean_what_their_signs_say() {
    for (range, inside, outside) in [
        ("1", "1.0.0", "1.0.1 0.9.9 1.1 2"),
        ("=1.2", "1.2", "1.2.1 1.1"),
        ("v1.2.3", "1.2.3", "1.2.4"),
        (">1.2", "1.2.1 1.3 9", "1.2 1.1"),
        (">=1.2", "1.2 1.2.1 9", "1.1.9"),
        ("<1.2", "1.1.9 0", "1.2 2"),
        ("<= 1.2", "1.2 0", "1.2.1"),
        ("1.x", "1 1.9.9", "0.9 2"),
        ("1.2.x", "1.2 1.2.9", "1.3 1.1.9"),
        ("1.x.x", "1 1.9.9", "2"),
        ("*", "0 1 99.9.9", ""),
        ("x", "0 1", ""),
        (">1.x", "2 3", "1.9.9"),
        (">=1.x", "1 2", "0.9"),
        ("<=1.x", "1.9.9 0", "2"),
        ("<1.x", "0.9", "1 1.9"),
        ("^1.2.3", "1.2.3 1.9", "1.2.2 2"),
        ("^1", "1 1.9", "2 0.9"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3 0.2.2"),
        ("^0.0.3", "0.0.3", "0.0.4 0.0.2"),
        ("^0.0", "0 0.0.9", "0.1"),
        ("^0", "0 0.9", "1"),
        ("^1.x", "1 1.9", "2"),
        ("~1.2.3", "1.2.3 1.2.9", "1.3 1.2.2"),
        ("~1.2", "1.2 1.2.9", "1.3"),
        ("~1", "1 1.9", "2"),
        (">=1.2 <2", "1.2 1.9.9", "1.1 2"),
        ("  >= 1.2   < 2 ", "1.2 1.9.9", "1.1 2"),
        (">2 <1", "", "0 1 2 3"),
        ("1 || 3.x", "1 3.5", "2 1.1"),
        (">=4294967295.4294967295.4294967295", "4294967295.4294967295.4294967295", "1"),
        (">4294967295.4294967295.4294967295", "", "4294967295.4294967295.4294967295"),
    ] {
        for text in inside.split(' ').filter(|text| !text.is_empty()) {
            assert_eq!(holds(range, text), Some(true), "{range:?} has {text}");
        }
        for text in outside.split(' ').filter(|text| !text.is_empty()) {
            assert_eq!(holds(range, text), Some(false), "{range:?} has not {text}");
        }
    }
    for range in [
        "",
        " ",
        "||",
        "1 ||",
        "|| 1",
        "1 | 2",
        "abc",
        "1.x.3",
        "1.2.3.4",
        ">",
        ">>1",
        "=>1",
        ">=1<2",
        "1-2",
        "1,2",
        "^",
        "1.",
        "-1",
        "vv1",
        "v",
        "1.0-beta",
        ">= <1",
        "4294967296",
    ] {
        assert_eq!(holds(range, "1"), None, "{range:?}");
    }
    assert_eq!(holds(&"1 ".repeat(128), "1"), Some(true));
    assert_eq!(holds(&"1 ".repeat(129), "1"), None);
}

/// A plain reading of one comparator: by comparing numbers, not by intervals.
fn plain(sign: &str, given: &[u32], version: [u32; 3]) -> bool {
    let mut full = [0; 3];
    full[..given.len()].copy_from_slice(given);
    let same = |count: usize| version[..count] == full[..count];
    match sign {
        "" | "=" => version == full,
        ">" => version.cmp(&full) == Ordering::Greater,
        ">=" => version >= full,
        "<" => version < full,
        "<=" => version <= full,
        "~" => version >= full && same(given.len().min(2)),
        _ => version >= full && same(given.iter().position(|n| *n != 0).map_or(given.len(), |at| at + 1)),
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,300}") {
        let _ = Version::read(&text);
        let _ = range::read(&text, |_| {});
    }

    #[test]
    fn texts_that_look_like_ranges_are_read_or_refused(text in "[0-9xX*v.<>=^~| ]{0,24}") {
        let _ = Version::read(&text);
        let _ = range::read(&text, |interval| assert!(interval.end <= 1 << 96));
    }

    #[test]
    fn versions_are_ordered_by_their_places(a in any::<[u32; 3]>(), b in any::<[u32; 3]>()) {
        let [a, b] = [a, b].map(|[major, minor, patch]| Version::new(major, minor, patch));
        prop_assert_eq!(a.cmp(&b), a.place().cmp(&b.place()));
        prop_assert_eq!(Version::read(&a.to_string()), Some(a));
    }

    #[test]
    fn a_comparator_means_what_a_plain_comparison_says(
        sign in select(vec!["", "=", ">", ">=", "<", "<=", "~", "^"]),
        given in proptest::collection::vec(0_u32..4, 1..4),
        version in [0_u32..4, 0..4, 0..4],
    ) {
        let words: Vec<String> = given.iter().map(u32::to_string).collect();
        let [a, b, c] = version;
        let range = format!("{sign}{}", words.join("."));
        prop_assert_eq!(holds(&range, &format!("{a}.{b}.{c}")), Some(plain(sign, &given, version)), "{}", range);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let header = || ApiVersion::default().with_header("v");
    assert_eq!(header().check(), Ok(()));
    for (stage, part) in [
        (ApiVersion::default().with_default("1"), "no request could ask"),
        (header().with_default("1").with_required(true), "one of both is in vain"),
        (header().with_default("one"), "\"one\" is no version"),
        (header().with_default("1.x"), "\"1.x\" is no version"),
        (header().with_default(">>1").with_matching(ApiVersionMatch::Range), "\">>1\" is no range"),
        (ApiVersion::default().with_query_parameter(" "), "has no name"),
        (header().with_media_type_parameter("json", "v"), "\"json\" is no media type"),
    ] {
        let why = stage.check().unwrap_err();
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(header().with_default("1.x").with_matching(ApiVersionMatch::Range).check(), Ok(()));
}
