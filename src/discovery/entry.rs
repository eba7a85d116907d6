//! One entry of a list of instances, as texts: what a property file or a registry file holds.

use crate::{InvalidInstance, Metadata, ServiceId, ServiceInstance, Status, Weight};

/// One instance as it is written in configuration; every value is a text until it is checked.
///
/// The shape is that of `spring.cloud.discovery.client.simple.instances.<service>[i]`: a `uri`, or `host` and `port`,
/// with the rest optional. All fields are unset by default.
///
/// * `uri`: `http://s11:8080`, `https://s12`, or `s13:8080`. `http` and `ws` mean `secure: false`, `https` and `wss`
///   mean `secure: true`, another scheme becomes the instance's own. User info, path and query are ignored. It wins
///   over `host`; its port wins over `port`; a `secure` or `scheme` that is given wins over what it says.
/// * `port`: 1 to 65 535; unset means that of the scheme.
/// * `weight`: a text that is no weight is kept as the metadata entry `weight`, which the weights are read from.
/// * `status`, `priority`: a text that is none counts as unset, with a warning.
///
/// ```
/// use evenkeel::discovery::SimpleEntry;
/// use evenkeel::ServiceId;
///
/// let orders = ServiceId::new("orders")?;
/// let mut entry = SimpleEntry::uri("https://s11:8443");
/// assert!(entry.set("instance-id", "a"));
/// assert!(entry.set("metadata.zone", "eu-1a"));
/// let instance = entry.to_instance(&orders)?;
/// assert_eq!((instance.to_string().as_str(), instance.secure()), ("a (s11:8443)", Some(true)));
///
/// let wrong = SimpleEntry::at("s12", "80a").to_instance(&orders).unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     r#"instance "s12" of service "orders" has port "80a": a number from 1 to 65535 is expected"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimpleEntry {
    /// `scheme://host:port`, instead of `host` and `port`.
    pub uri: Option<String>,
    /// A name or an address.
    pub host: Option<String>,
    /// 1 to 65 535.
    pub port: Option<String>,
    /// `true` or `false`; unset, the request decides.
    pub secure: Option<String>,
    /// A scheme of its own.
    pub scheme: Option<String>,
    /// The id; `host:port` if unset.
    pub instance_id: Option<String>,
    /// The zone; the metadata entry `zone` if unset.
    pub zone: Option<String>,
    /// The weight, a real number.
    pub weight: Option<String>,
    /// `up`, `degraded`, `draining` or `down`.
    pub status: Option<String>,
    /// A whole number; 0, the default, is the first.
    pub priority: Option<String>,
    /// Everything else; of two entries with one key the last counts.
    pub metadata: Vec<(String, String)>,
}

const PORT_EXPECTED: &str = "a number from 1 to 65535 is expected";

impl SimpleEntry {
    /// An entry with a `uri` and nothing else.
    pub fn uri(uri: impl Into<String>) -> Self {
        Self { uri: Some(uri.into()), ..Self::default() }
    }

    /// An entry with `host` and `port` and nothing else.
    #[allow(clippy::needless_pass_by_value)] // a number is passed as it is
    pub fn at(host: impl Into<String>, port: impl ToString) -> Self {
        Self { host: Some(host.into()), port: Some(port.to_string()), ..Self::default() }
    }

    /// Sets the field that a property names; `false` for a name that none has.
    ///
    /// Names are read as Spring reads them: case, `-` and `_` do not count (`instance-id`, `instanceId`). `id` and `url`
    /// are other words for `instance-id` and `uri`; `metadata.<key>` adds to the metadata, its key as it is written.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> bool {
        let value = value.into();
        if let Some((head, key)) = name.split_once('.') {
            let known = head.eq_ignore_ascii_case("metadata") && !key.is_empty();
            if known {
                self.metadata.push((key.to_owned(), value));
            }
            return known;
        }
        let plain: String =
            name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
        let field = match plain.as_str() {
            "uri" | "url" => &mut self.uri,
            "host" => &mut self.host,
            "port" => &mut self.port,
            "secure" => &mut self.secure,
            "scheme" => &mut self.scheme,
            "instanceid" | "id" => &mut self.instance_id,
            "zone" => &mut self.zone,
            "weight" => &mut self.weight,
            "status" => &mut self.status,
            "priority" => &mut self.priority,
            _ => return false,
        };
        *field = Some(value);
        true
    }

    /// The instance that is meant.
    ///
    /// # Errors
    /// [`InvalidInstance`], which names service, id, field and value, for an entry that cannot be called.
    pub fn to_instance(&self, service: &ServiceId) -> Result<ServiceInstance, InvalidInstance> {
        self.read(service).map(|(instance, _)| instance)
    }

    /// What errors call this entry.
    pub(crate) fn label(&self) -> &str {
        let named = [&self.instance_id, &self.uri, &self.host];
        named.into_iter().flatten().map(|text| text.trim()).find(|text| !text.is_empty()).unwrap_or("(no id)")
    }

    /// The instance, and what is wrong with it without making it useless.
    pub(crate) fn read(
        &self,
        service: &ServiceId,
    ) -> Result<(ServiceInstance, Vec<InvalidInstance>), InvalidInstance> {
        let wrong = |field, value: &str, reason| {
            InvalidInstance::new(self.label(), field, value, reason).of_service(service)
        };
        let place = match self.uri.as_deref() {
            Some(uri) => Place::of(uri).map_err(|reason| wrong("uri", uri, reason))?,
            None => Place::default(),
        };
        let Some(host) = place.host.or(self.host.as_deref()) else {
            return Err(wrong("host", "", "a host or a uri is expected"));
        };
        let mut notes = Vec::new();
        let mut builder = ServiceInstance::builder(host).service_id(service.clone());
        if let Some(id) = &self.instance_id {
            builder = builder.id(id.trim());
        }
        if let Some(port) = place.port.or(self.port.as_deref()) {
            let number: i64 = port.trim().parse().map_err(|_| wrong("port", port, PORT_EXPECTED))?;
            builder = builder.port(number);
        }
        let secure = match self.secure.as_deref().map(str::trim) {
            None | Some("") => place.secure,
            Some(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Some(false),
            // Not guessed: a wrong guess may send a request in the clear.
            Some(text) => return Err(wrong("secure", text, "true or false is expected")),
        };
        if let Some(secure) = secure {
            builder = builder.secure(secure);
        }
        if let Some(scheme) = self.scheme.as_deref().or(place.scheme) {
            builder = builder.scheme(scheme);
        }
        if let Some(zone) = &self.zone {
            builder = builder.zone(zone.as_str());
        }
        if let Some(text) = &self.status {
            match text.parse::<Status>() {
                Ok(status) => builder = builder.status(status),
                Err(_) => notes.push(wrong("status", text, "it is none and counts as unknown")),
            }
        }
        if let Some(text) = &self.priority {
            match text.trim().parse() {
                Ok(priority) => builder = builder.priority(priority),
                Err(_) => notes.push(wrong("priority", text, "it is no whole number and counts as 0")),
            }
        }
        let mut metadata: Vec<(&str, &str)> =
            self.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        if let Some(text) = &self.weight {
            match text.parse::<Weight>() {
                Ok(weight) => builder = builder.weight(weight),
                Err(_) => metadata.push(("weight", text)),
            }
        }
        let builder = builder.metadata(metadata.into_iter().collect::<Metadata>());
        Ok((builder.build().map_err(|error| error.of_service(service))?, notes))
    }
}

/// The parts of a `uri` that count.
#[derive(Default)]
struct Place<'a> {
    host: Option<&'a str>,
    port: Option<&'a str>,
    secure: Option<bool>,
    scheme: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(uri: &'a str) -> Result<Self, &'static str> {
        let uri = uri.trim();
        let (scheme, rest) = match uri.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, uri),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        // The last colon parts the port off, unless it stands inside the brackets of an IPv6 address.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port).filter(|port| !port.is_empty())),
            _ => (authority, None),
        };
        if host.is_empty() {
            return Err("it has no host");
        }
        if host.contains(':') && !host.starts_with('[') {
            return Err("an IPv6 address stands in brackets");
        }
        let is = |name: &str| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(name));
        let secure = match scheme {
            Some(_) if is("http") || is("ws") => Some(false),
            Some(_) if is("https") || is("wss") => Some(true),
            _ => None,
        };
        Ok(Self { host: Some(host), port, secure, scheme: scheme.filter(|_| secure.is_none()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> ServiceId {
        ServiceId::new("orders").unwrap()
    }

    #[test]
    fn the_forms_of_a_uri() {
        for (uri, authority, secure, scheme) in [
            ("http://s11:8080", "s11:8080", Some(false), None),
            ("https://s11", "s11", Some(true), None),
            ("HTTPS://user:pw@S11:8443/path?q#f", "s11:8443", Some(true), None),
            ("grpc://s11:1", "s11:1", None, Some("grpc")),
            ("s11:1", "s11:1", None, None),
            ("http://[2001:db8::5]:8080/", "[2001:db8::5]:8080", Some(false), None),
            ("[::1]", "[::1]", None, None),
            ("http://s11:/", "s11", Some(false), None),
        ] {
            let instance = SimpleEntry::uri(uri).to_instance(&orders()).unwrap();
            assert_eq!((instance.authority().as_str(), instance.secure()), (authority, secure), "{uri}");
            assert_eq!(instance.scheme(), scheme);
        }
        for bad in
            ["", "http://", "http://:80", "http://2001:db8::5:80", "http://s:0", "http://s:70000", "a b:1"]
        {
            let error = SimpleEntry::uri(bad).to_instance(&orders()).unwrap_err();
            assert!(error.to_string().contains("\"orders\""), "{error}");
        }
    }

    #[test]
    fn a_weight_keeps_its_spelling_and_a_bad_one_goes_to_the_metadata() {
        let mut entry = SimpleEntry::at("h", 1);
        assert!(entry.set("weight", "1.50"));
        assert_eq!(entry.to_instance(&orders()).unwrap().weight(), Some(Weight::new(1.5).unwrap()));
        entry.set("weight", "many");
        let instance = entry.to_instance(&orders()).unwrap();
        assert_eq!((instance.weight(), instance.metadata().get("weight")), (None, Some("many")));
    }

    #[test]
    fn names_are_relaxed_and_unknown_ones_are_told() {
        let mut entry = SimpleEntry::default();
        for name in ["instance-id", "instanceId", "INSTANCE_ID", "id", "Host", "metadata.a.b", "metadata.x"] {
            assert!(entry.set(name, "v"), "{name}");
        }
        for name in ["", "prot", "metadata", "metadata.", "host.x"] {
            assert!(!entry.set(name, "v"), "{name}");
        }
        assert_eq!(entry.metadata[0], ("a.b".to_owned(), "v".to_owned()));
    }

    #[test]
    fn doubtful_values_are_noted_and_wrong_ones_refused() {
        let mut entry = SimpleEntry::at("h", 1);
        entry.set("status", "drainng");
        entry.set("priority", "-1");
        let (instance, notes) = entry.read(&orders()).unwrap();
        assert_eq!((instance.status(), instance.priority(), notes.len()), (Status::Unknown, 0, 2));
        entry.set("secure", "maybe");
        assert_eq!(entry.to_instance(&orders()).unwrap_err().field(), "secure");
    }
}
