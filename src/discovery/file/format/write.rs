use serde_json::{Map, Value, json};

use crate::{ServiceId, ServiceInstance, Status};

/// The list of one service as a document in JSON, which [`parse`](super::parse) reads back as it was.
#[allow(dead_code)] // for the file that a warm start reads
pub(crate) fn write_document(service: &ServiceId, instances: &[ServiceInstance]) -> String {
    let list: Vec<Value> = instances.iter().map(entry).collect();
    let mut services = Map::new();
    services.insert(service.as_str().to_owned(), Value::Array(list));
    let mut text = format!("{:#}", json!({ "services": services }));
    text.push('\n');
    text
}

fn entry(instance: &ServiceInstance) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    put("id", Some(instance.id().into()));
    put("host", Some(instance.host().into()));
    put("port", instance.port().map(Value::from));
    put("secure", instance.secure().map(Value::from));
    put("scheme", instance.scheme().map(Value::from));
    put("zone", instance.zone().map(Value::from));
    // As a text: a float of JSON might not come back to the thousandth.
    put("weight", instance.weight().map(|weight| weight.to_string().into()));
    put(
        "status",
        Some(instance.status()).filter(|status| *status != Status::Unknown).map(|s| s.as_str().into()),
    );
    put("priority", Some(instance.priority()).filter(|priority| *priority != 0).map(Value::from));
    let metadata: Map<String, Value> =
        instance.metadata().iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    put("metadata", Some(metadata).filter(|metadata| !metadata.is_empty()).map(Value::Object));
    Value::Object(fields)
}
