//! Filters of the query; pairs that they do not mean stay byte for byte.

/// Adds a parameter behind those that are there.
pub(super) fn add(query: &mut Option<String>, name: &str, value: &str) {
    let query = query.get_or_insert_default();
    if !query.is_empty() && !query.ends_with('&') {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    query.push_str(value);
}

/// Removes all parameters of a name.
pub(super) fn remove(query: &mut Option<String>, name: &str) {
    let Some(text) = query else { return };
    let is_it = |pair: &&str| {
        let key = pair.split('=').next().unwrap_or_default().replace('+', " ");
        crate::gateway::pattern::decoded(&key) == name
    };
    if text.split('&').any(|pair| is_it(&pair)) {
        let kept: Vec<&str> = text.split('&').filter(|pair| !is_it(pair)).collect();
        *query = (!kept.is_empty()).then(|| kept.join("&"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_and_go_and_the_others_stay() {
        let added = |query: Option<&str>| {
            let mut query = query.map(str::to_owned);
            add(&mut query, "a", "1");
            query.unwrap()
        };
        assert_eq!((added(None).as_str(), added(Some("")).as_str()), ("a=1", "a=1"));
        assert_eq!(added(Some("x=%20+&y")), "x=%20+&y&a=1");
        let removed = |text: &str| {
            let mut query = Some(text.to_owned());
            remove(&mut query, "a b");
            query
        };
        assert_eq!(removed("x=1&a+b=2&y=%zz&a%20b").as_deref(), Some("x=1&y=%zz"));
        assert_eq!(removed("a+b=1"), None);
        assert_eq!(removed("ab=1&&").as_deref(), Some("ab=1&&"));
    }
}
