//! The map of API versions by media type.

use super::*;

fn parameters(properties: &Properties, service: &str) -> Vec<(String, String)> {
    properties.effective(service).api_version.media_type_parameters.into_iter().collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn spellings_of_the_map() {
    let json = pairs(&[("application/json", "v")]);
    for text in [
        "evenkeel.api-version.media-type-parameters: {application/json: v}",
        "evenkeel.api-version.media-type-parameters.[application/json]: v",
        "spring.cloud.loadbalancer.apiVersion.mediaTypeParameters[application/json]: v",
        "evenkeel: {api-version: {media-type-parameters: {Application/JSON: ' v '}}}",
    ] {
        assert_eq!(parameters(&yaml(text), "orders"), json, "{text}");
    }
    let dots =
        yaml("evenkeel.api-version.media-type-parameters: {'[application/vnd.acme+json]': a, text/x.y: b}");
    let wanted = pairs(&[("application/vnd.acme+json", "a"), ("text/x.y", "b")]);
    assert_eq!(parameters(&dots, "orders"), wanted);
    let toml = "[evenkeel.api-version.media-type-parameters]\n\"application/json\" = \"v\"\n";
    assert_eq!(parameters(&Properties::parse(toml, Format::Toml, "a.toml").unwrap(), "x"), json);
    let code = Properties::default().set("api-version.media-type-parameters[application/json]", "v").unwrap();
    assert_eq!(parameters(&code, "x"), json);
}

#[test]
fn entries_are_merged_one_by_one() {
    let properties = yaml(
        "evenkeel:\n  api-version.media-type-parameters: {application/json: v, text/plain: t}\n  \
         clients.orders.api-version.media-type-parameters: {application/json: own, '[application/x.y+json]': x}\n",
    );
    let variables = [
        ("EVENKEEL_API_VERSION_MEDIA_TYPE_PARAMETERS_TEXT_PLAIN", "env"),
        (
            "SPRING_CLOUD_LOADBALANCER_CLIENTS_ORDERS_APIVERSION_MEDIATYPEPARAMETERS_APPLICATION_X_Y_JSON",
            "known",
        ),
        ("EVENKEEL_CLIENTS_USERS_API_VERSION_MEDIA_TYPE_PARAMETERS_TEXT_HTML", "guessed"),
    ];
    let properties = properties.with_environment(variables).unwrap();
    let orders =
        pairs(&[("application/json", "own"), ("application/x.y+json", "known"), ("text/plain", "env")]);
    assert_eq!(parameters(&properties, "orders"), orders);
    let users = pairs(&[("application/json", "v"), ("text/html", "guessed"), ("text/plain", "env")]);
    assert_eq!(parameters(&properties, "users"), users);
    assert_eq!(properties.warnings(), []);
    let report = properties.report("orders");
    let entry = report.get("api-version.media-type-parameters.text/plain").unwrap();
    assert_eq!(entry.value, "env");
    assert!(entry.origin.to_string().contains("TEXT_PLAIN"), "{entry:?}");
    // The values of one service can stand in a file of another.
    let json = serde_json::to_string(&properties.effective("orders")).unwrap();
    assert_eq!(
        serde_json::from_str::<LoadBalancerProperties>(&json).unwrap(),
        properties.effective("orders")
    );
}

#[test]
fn what_is_no_media_type_is_refused() {
    for entry in ["json: v", "application/json: ''", "a/b/c: v", "/json: v", "'a /b': v", "'a/b;q=1': v"] {
        let text = format!("evenkeel.api-version.media-type-parameters: {{{entry}}}");
        assert_eq!(refused(&text).problems().len(), 1, "{entry}");
    }
    assert_eq!(refused("evenkeel.api-version.media-type-parameters: v").problems().len(), 1);
    assert_eq!(yaml("evenkeel.api-version.media-type-parameters: {}").warnings(), []);
    // A variable that could stand for several is left to a file.
    let unclear = [("EVENKEEL_API_VERSION_MEDIA_TYPE_PARAMETERS_APPLICATION_VND_ACME", "v")];
    assert_eq!(Properties::default().with_environment(unclear).unwrap().warnings().len(), 1);
}
