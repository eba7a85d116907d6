//! Variables and the services they mean.

use super::*;
use std::fmt::Write as _;

#[test]
fn an_environment_name_maps_to_the_known_id() {
    let variables = [("EVENKEEL_CLIENTS_ORDER_SERVICE_CACHE_TTL", "5s")];
    for id in ["order-service", "order_service", "order.service", "Order-Service"] {
        let files = [
            format!("evenkeel: {{clients: {{{id}: {{zone: a}}}}}}"),
            format!("evenkeel: {{eager-load.clients: [{id}]}}"),
            format!("evenkeel: {{hint: {{{id}: a}}}}"),
            format!("evenkeel: {{health-check.path: {{{id}: /a}}}}"),
            format!("spring.cloud.discovery.client.simple.instances: {{{id}: [host: h]}}"),
        ];
        for file in files {
            let properties = yaml(&file).with_environment(variables).unwrap();
            assert_eq!(properties.effective(id).cache.ttl, seconds(5), "{file}");
            assert_eq!(properties.services().len(), 1, "{file}");
        }
        // The order of the layers does not matter: code that comes later still tells the id.
        let properties =
            Properties::default().with_environment(variables).unwrap().set_for(id, "zone", "a").unwrap();
        assert_eq!(properties.effective(id).cache.ttl, seconds(5));
    }
    let unknown = Properties::default().with_environment(variables).unwrap();
    assert_eq!(unknown.services(), ["order-service"]);
    let springs = [("SPRING_CLOUD_LOADBALANCER_CLIENTS_ORDERSERVICE_CACHE_TTL", "5s")];
    let properties = yaml("evenkeel.eager-load.clients: order-service").with_environment(springs).unwrap();
    assert_eq!(properties.effective("order-service").cache.ttl, seconds(5));
    let eager =
        [("EVENKEEL_CLIENTS_ORDER_SERVICE_ZONE", "a"), ("EVENKEEL_EAGER_LOAD_CLIENTS", "order.service")];
    let properties = Properties::default().with_environment(eager).unwrap();
    assert_eq!(properties.effective("order.service").zone.as_deref(), Some("a"));
}

#[test]
fn an_environment_name_with_two_meanings_is_an_error() {
    let variables = [("EVENKEEL_CLIENTS_ORDER_SERVICE_CACHE_TTL", "5s")];
    let file = "evenkeel.clients: {order-service: , order_service: }";
    let error = yaml(file).with_environment(variables).unwrap_err().to_string();
    assert!(error.contains("order-service, order_service"), "{error}");
    assert!(error.contains("EVENKEEL_CLIENTS_ORDER_SERVICE_CACHE_TTL"), "{error}");
    // One name, two ways to cut it, both ids known.
    let file = "evenkeel.clients: {orders: , orders-cache: }";
    let error =
        yaml(file).with_environment([("EVENKEEL_CLIENTS_ORDERS_CACHE_ENABLED", "false")]).unwrap_err();
    assert!(error.to_string().contains("orders, orders-cache"), "{error}");
    // A second id that appears in code makes it ambiguous, and says so at once.
    let properties = yaml("evenkeel.clients: {order-service: }").with_environment(variables).unwrap();
    assert!(properties.set_for("order.service", "zone", "a").is_err());
    // The same id twice is one id.
    let file = "evenkeel: {clients: {order-service: }, eager-load.clients: [ORDER-SERVICE]}";
    assert!(yaml(file).with_environment(variables).is_ok());
    let twice = [("EVENKEEL_CACHE_HARD_AGE", "5s"), ("EVENKEEL_CACHE_HARDAGE", "6s")];
    assert!(Properties::default().with_environment(twice).is_err());
}

#[test]
fn many_variables_and_many_services_do_not_multiply() {
    let mut text = String::from("evenkeel.clients:\n");
    for at in 0..8_000 {
        let _ = writeln!(text, "  svc-{at}: {{zone: a}}");
    }
    let variables = (0..8_000).map(|at| (format!("EVENKEEL_CLIENTS_SVC_{at}_CACHE_HARD_AGE"), "99s"));
    let properties = yaml(&text).with_environment(variables).unwrap();
    assert_eq!(properties.effective("svc-7999").cache.hard_age, Some(seconds(99)));
    assert_eq!(properties.services().len(), 8_000);
}

#[test]
fn errors_name_the_key_as_a_file_would_spell_it() {
    for (variable, value, key) in [
        ("EVENKEEL_ROUTING_0_HEADER", "a b", "evenkeel.routing[0].header"),
        ("EVENKEEL_ROUTING_10_FALLBACK_20", "b", "evenkeel.routing[10].fallback[20]"),
        (
            "SPRING_CLOUD_LOADBALANCER_CLIENTS_A_RETRY_RETRYABLESTATUSCODES_0",
            "x",
            "spring.cloud.loadbalancer.clients.a.retry.retryable-status-codes[0]",
        ),
        (
            "SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_O_100_URI",
            "x",
            "spring.cloud.discovery.client.simple.instances.o[100].uri",
        ),
    ] {
        let error = Properties::default().with_environment([(variable, value)]).unwrap_err();
        assert_eq!(error.problems()[0].key, key, "{error}");
    }
}
