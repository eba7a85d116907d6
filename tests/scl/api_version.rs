//! 3.14 API version: cases 166 to 174.

use evenkeel::config::{ApiVersionProperties, LoadBalancerProperties, StageName};
use evenkeel::policy::RoundRobin;
use evenkeel::supplier::ApiVersion;
use evenkeel::{
    ChooseErrorKind, HttpView, LoadBalancer, Reason, Request, ServiceInstance, ServiceInstanceListSupplier,
    SupplierBuilder,
};
use futures_util::StreamExt;

use crate::support::*;

const HEADER: &str = "X-Api-Version";

/// v1, v2, and one without a version.
fn three() -> Vec<ServiceInstance> {
    let mut list = with("API_VERSION", "v1=1 v2=2");
    list.push(instance("none"));
    list
}

fn by_header() -> ApiVersion {
    ApiVersion::default().with_header(HEADER)
}

fn versioned(stage: ApiVersion) -> LoadBalancer {
    fixed(three(), |chain| chain.with_api_version(stage), RoundRobin::starting_at(-1))
}

/// The ids that six requests see, or why there is none.
async fn seen(lb: &LoadBalancer, version: Option<&str>) -> Result<String, (Reason, String)> {
    let mut request = http::Request::builder();
    if let Some(version) = version {
        request = request.header(HEADER, version);
    }
    let request = request.body(()).unwrap();
    let view = HttpView::of(&request);
    let mut ids = String::new();
    for _ in 0..6 {
        match lb.choose(&Request::of(&view)).await {
            Ok(choice) => ids += choice.instance().id(),
            Err(error) => match error.kind() {
                ChooseErrorKind::NoInstances { reason, .. } => return Err((*reason, error.to_string())),
                kind => panic!("{kind:?}"),
            },
        }
    }
    Ok(ids)
}

#[tokio::test(start_paused = true)]
async fn scl_166_a_header_chooses_the_instance_of_its_version() {
    assert_eq!(seen(&versioned(by_header()), Some("1.0")).await.unwrap(), "v1".repeat(6));
}

#[tokio::test(start_paused = true)]
async fn scl_167_a_request_without_a_version_finds_nothing() {
    let (reason, text) = seen(&versioned(by_header()), None).await.unwrap_err();
    assert_eq!(reason, Reason::NoGroup);
    assert!(text.contains("names no API version") && text.contains("header X-Api-Version"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn scl_168_with_the_fallback_it_finds_all_in_their_order() {
    let lb = versioned(by_header().with_fallback(true));
    assert_eq!(seen(&lb, None).await.unwrap(), "v1v2nonev1v2none");
}

#[tokio::test(start_paused = true)]
async fn scl_169_the_default_version_is_that_of_a_request_that_says_nothing() {
    let lb = versioned(by_header().with_default("2"));
    assert_eq!(pick_for(&lb, &Request::EMPTY).await, "v2");
    assert_eq!(seen(&lb, None).await.unwrap(), "v2".repeat(6));
    assert_eq!(seen(&lb, Some("1")).await.unwrap(), "v1".repeat(6));
    // A list without a request is the whole one: a request narrows what is there, and is no part of a list.
    let chain = SupplierBuilder::new("orders").with_instances(three());
    let chain = chain.with_api_version(by_header().with_default("2")).build().unwrap();
    assert_eq!(chain.get().next().await.unwrap().unwrap().len(), 3);
}

#[test]
fn scl_170_without_waiting_it_is_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lb = versioned(by_header());
    runtime.block_on(lb.ready()).unwrap();
    // This thread is on no runtime: the call blocks nobody and waits for nothing.
    let request = |version: &str| http::Request::builder().header(HEADER, version).body(()).unwrap();
    for (version, expected) in [("1", Some("v1")), ("v2.0.0", Some("v2")), ("3", None)] {
        let request = request(version);
        let view = HttpView::of(&request);
        let picked = lb.try_choose(&Request::of(&view)).ok().map(|choice| choice.instance().id().to_owned());
        assert_eq!(picked.as_deref(), expected, "{version}");
    }
    assert!(lb.try_choose(&Request::EMPTY).is_err());
}

#[tokio::test(start_paused = true)]
async fn scl_171_spellings_strangers_and_nonsense() {
    let (strict, lenient) = (versioned(by_header()), versioned(by_header().with_fallback(true)));
    assert_eq!(seen(&strict, Some("v1.0.0")).await.unwrap(), "v1".repeat(6));
    let (reason, text) = seen(&strict, Some("3")).await.unwrap_err();
    assert_eq!(reason, Reason::NoGroup);
    assert!(text.contains("no instance has API version \"3\": there is 1.0.0, 2.0.0"), "{text}");
    let (reason, text) = seen(&strict, Some("abc")).await.unwrap_err();
    assert_eq!(reason, Reason::NoGroup);
    assert!(text.contains("\"abc\", which is no version"), "{text}");
    for version in ["3", "abc"] {
        assert_eq!(seen(&lenient, Some(version)).await.unwrap().matches("none").count(), 2, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn scl_172_a_version_that_is_required_is_required() {
    for fallback in [false, true] {
        let lb = versioned(by_header().with_required(true).with_fallback(fallback));
        let (reason, text) = seen(&lb, None).await.unwrap_err();
        assert_eq!(reason, Reason::Required);
        assert!(text.contains("is required: header X-Api-Version"), "{text}");
        assert_eq!(seen(&lb, Some("2")).await.unwrap(), "v2".repeat(6));
    }
}

fn built(properties: ApiVersionProperties) -> Result<(), String> {
    let properties = LoadBalancerProperties::default()
        .with_configurations([StageName::ApiVersion])
        .with_api_version(properties);
    let chain = SupplierBuilder::new("orders").with_instances(three()).with_properties(&properties);
    chain.build().map(drop).map_err(|error| error.to_string())
}

#[test]
fn scl_173_required_and_a_default_contradict_each_other() {
    let both = ApiVersionProperties::default().with_header(HEADER.to_owned()).with_required(true);
    assert_eq!(built(both.clone()), Ok(()));
    let error = built(both.with_default("1".to_owned())).unwrap_err();
    assert!(error.contains("orders") && error.contains("api-version.required"), "{error}");
}

#[test]
fn scl_174_without_a_place_to_look_the_chain_is_refused_at_once() {
    let error = built(ApiVersionProperties::default()).unwrap_err();
    assert!(error.contains("orders") && error.contains("no request could ask for a version"), "{error}");
    let placed = [
        ApiVersionProperties::default().with_query_parameter("v".to_owned()),
        ApiVersionProperties::default().with_path_segment(0),
        ApiVersionProperties::default()
            .with_media_type_parameters([("application/json".to_owned(), "version".to_owned())]),
    ];
    for properties in placed {
        assert_eq!(built(properties), Ok(()));
    }
}
