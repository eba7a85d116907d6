//! Instances written in the properties.

use super::*;

#[test]
fn simple_instances() {
    let properties = yaml(
        "spring.cloud.discovery.client.simple.instances:\n  Orders:\n    - uri: https://[::1]:8443/base\n      \
         metadata: {zone: eu-1a, management.port: 9090}\n    - {host: 10.0.0.7, port: 8080, secure: false, \
         instance-id: o-2}\n  billing.api:\n    - uri: http://b\n",
    );
    let [(billing, api), (orders, list)] = properties.simple_instances() else { panic!() };
    assert_eq!((billing.as_str(), orders.as_str()), ("billing.api", "Orders"));
    assert_eq!(api[0].host, "b");
    assert_eq!(api[0].port, None);
    assert_eq!(list[0].uri.as_deref(), Some("https://[::1]:8443/base"));
    assert_eq!((list[0].host.as_str(), list[0].port, list[0].secure), ("::1", Some(8443), Some(true)));
    assert_eq!(list[0].metadata["management.port"], "9090");
    let second =
        SimpleInstanceProperties::new("10.0.0.7").with_port(8080).with_secure(false).with_instance_id("o-2");
    assert_eq!(list[1], second);
    assert_eq!(properties.services(), ["Orders", "billing.api"]);

    let variables = [
        ("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_URI", "http://other:81"),
        ("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_METADATA_ZONE", "eu-1b"),
        ("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_STOCK_2_0_HOST", "s"),
    ];
    let properties = properties.with_environment(variables).unwrap();
    let [_, (orders, list), (stock, _)] = properties.simple_instances() else { panic!() };
    // The list of the environment replaces the file's; the id of the file is the spelling.
    assert_eq!((orders.as_str(), stock.as_str()), ("Orders", "stock-2"));
    assert_eq!((list.len(), list[0].host.as_str(), list[0].port), (1, "other", Some(81)));
    assert_eq!(list[0].metadata["zone"], "eu-1b");
}

#[test]
fn case_051_an_instance_without_a_usable_port_is_left_out() {
    let properties = yaml(
        "spring.cloud.discovery.client.simple.instances.o:\n  - {host: a, port: 8080}\n  - {host: b, port: }\n  \
         - {host: c, port: 0}\n  - {host: d, port: -1}\n  - {host: e, port: 70000}\n  - {host: f, port: 80a}\n  \
         - uri: http://g:0\n  - uri: http://h:99999\n  - {instance-id: i, port: 1}\n",
    );
    let hosts: Vec<_> =
        properties.simple_instances()[0].1.iter().map(|i| (i.host.as_str(), i.port)).collect();
    assert_eq!(hosts, [("a", Some(8080)), ("b", None)]);
    assert_eq!(properties.warnings().len(), 7);
    assert!(properties.warnings()[0].to_string().contains("service o"), "{}", properties.warnings()[0]);
    for bad in
        ["", "a", "http://", "://a", "http://a b", "http://u@a", "http://[::1", "1http://a", "http://[a]"]
    {
        let text = format!("spring.cloud.discovery.client.simple.instances.o: [uri: '{bad}']");
        assert_eq!(refused(&text).problems().len(), 1, "{bad}");
    }
}

#[test]
fn an_empty_list_replaces_the_one_of_an_earlier_document() {
    let all = "spring.cloud.discovery.client.simple.instances:\n  orders:\n    - uri: http://dev:1\n  stock:\n    - uri: \
               http://dev:2\n";
    let prod = "---\nspring.cloud.discovery.client.simple.instances.orders: []\n";
    let properties = yaml(&format!("{all}{prod}"));
    let counts: Vec<_> =
        properties.simple_instances().iter().map(|(id, list)| (id.as_str(), list.len())).collect();
    assert_eq!(counts, [("orders", 0), ("stock", 1)]);
    assert_eq!(properties.warnings(), []);
    // A text is no list, and does not make one empty.
    let properties = yaml(&format!("{all}{}", prod.replace("[]", "http://dev:3")));
    assert_eq!((properties.simple_instances()[0].1.len(), properties.warnings().len()), (1, 1));
    // Both in one document cannot be meant.
    let both =
        "spring.cloud.discovery.client.simple.instances: {orders: [], 'orders[0].uri': http://dev:1}\n";
    assert!(refused(both).to_string().contains("given twice"), "{}", refused(both));
}
