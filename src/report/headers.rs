use std::fmt;

use http::HeaderMap;

use super::{LoadReport, text};

/// The header and trailer of a report: `TEXT`, `JSON` or `BIN`, and the report.
const METRICS: &str = "endpoint-load-metrics";
/// The same as base64 of the protobuf message, as gRPC has it.
const METRICS_BIN: &str = "endpoint-load-metrics-bin";

/// A report of load that cannot be read; it says what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLoadReport {
    header: &'static str,
    why: String,
}

impl fmt::Display for InvalidLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the report of load in {} cannot be read: {}", self.header, self.why)
    }
}

impl std::error::Error for InvalidLoadReport {}

impl LoadReport {
    /// The report in the headers or trailers of a reply, if there is one: `endpoint-load-metrics-bin` (with the feature `orca`;
    /// without it, it is not looked at), else `endpoint-load-metrics`.
    ///
    /// # Errors
    /// [`InvalidLoadReport`] when there is one that cannot be read.
    ///
    /// ```
    /// use evenkeel::LoadReport;
    ///
    /// let mut headers = http::HeaderMap::new();
    /// assert_eq!(LoadReport::from_headers(&headers), Ok(None));
    /// headers.insert("endpoint-load-metrics", "TEXT cpu_utilization=0.3,rps_fractional=80".parse()?);
    /// let report = LoadReport::from_headers(&headers)?.ok_or("no report")?;
    /// assert_eq!((report.cpu_utilization, report.qps), (0.3, 80.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, InvalidLoadReport> {
        #[cfg(feature = "orca")]
        if let Some(value) = headers.get(METRICS_BIN) {
            let read = super::binary::base64(value.as_bytes());
            return read.map(Some).map_err(|why| InvalidLoadReport { header: METRICS_BIN, why });
        }
        let Some(value) = headers.get(METRICS) else { return Ok(None) };
        let value = value.to_str().map_err(|_| "it is no text".to_owned());
        let read = value.and_then(Self::of_value);
        read.map(Some).map_err(|why| InvalidLoadReport { header: METRICS, why })
    }

    /// The report in the value of a header: `TEXT name=value,...`, `JSON {...}`, or `BIN ` and base64 (with the feature `orca`).
    ///
    /// # Errors
    /// [`InvalidLoadReport`].
    ///
    /// ```
    /// use evenkeel::LoadReport;
    ///
    /// let report = LoadReport::from_text(r#"JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 7}}"#)?;
    /// assert_eq!(report.metric("queue"), Some(7.0));
    /// assert!(LoadReport::from_text("TEXT cpu_utilization=high").is_err());
    /// # Ok::<(), evenkeel::InvalidLoadReport>(())
    /// ```
    pub fn from_text(value: &str) -> Result<Self, InvalidLoadReport> {
        Self::of_value(value).map_err(|why| InvalidLoadReport { header: METRICS, why })
    }

    /// The report in a message `xds.data.orca.v3.OrcaLoadReport`.
    ///
    /// # Errors
    /// [`InvalidLoadReport`].
    #[cfg(feature = "orca")]
    #[cfg_attr(docsrs, doc(cfg(feature = "orca")))]
    pub fn from_protobuf(bytes: &[u8]) -> Result<Self, InvalidLoadReport> {
        super::binary::protobuf(bytes).map_err(|why| InvalidLoadReport { header: METRICS_BIN, why })
    }

    /// Whether there is one to read.
    pub(crate) fn is_in(headers: &HeaderMap) -> bool {
        headers.contains_key(METRICS) || (cfg!(feature = "orca") && headers.contains_key(METRICS_BIN))
    }

    fn of_value(value: &str) -> Result<Self, String> {
        let value = value.trim();
        let (form, rest) = value.split_once(' ').unwrap_or((value, ""));
        match form.to_ascii_uppercase().as_str() {
            "TEXT" => text::pairs(rest),
            "JSON" => text::json(rest),
            #[cfg(feature = "orca")]
            "BIN" => super::binary::base64(rest.as_bytes()),
            #[cfg(not(feature = "orca"))]
            "BIN" => Err("to read the form BIN takes the feature orca".to_owned()),
            _ => Err(format!(
                "it begins with {:?}, and TEXT, JSON or BIN is expected",
                form.chars().take(20).collect::<String>()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &[u8]) -> Result<Option<LoadReport>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, http::HeaderValue::from_bytes(value).unwrap());
        assert!(LoadReport::is_in(&headers) || name == "other");
        LoadReport::from_headers(&headers).map_err(|error| error.to_string())
    }

    #[test]
    fn lbs_orca_in_headers() {
        let expected = Ok(Some(LoadReport::default().with_cpu_utilization(0.5).with_eps(2.0)));
        assert_eq!(read(METRICS, b"TEXT cpu_utilization=0.5,eps=2"), expected);
        assert_eq!(read(METRICS, b"text cpu_utilization=0.5,eps=2"), expected);
        assert_eq!(read(METRICS, br#"JSON {"cpuUtilization": 0.5, "eps": 2}"#), expected);
        assert_eq!(read("other", b"x"), Ok(None));
        for (value, quoted) in [
            (&b"cpu_utilization=0.5"[..], "\"cpu_utilization=0.5\", and TEXT, JSON or BIN"),
            (b"", "\"\", and TEXT"),
            (b"TEXT eps=\xff", "no text"),
            (b"JSON [1]", "'{' is expected"),
        ] {
            let error = read(METRICS, value).unwrap_err();
            assert!(
                error.starts_with("the report of load in endpoint-load-metrics ") && error.contains(quoted),
                "{error}"
            );
        }
    }

    #[cfg(feature = "orca")]
    #[test]
    fn lbs_orca_in_binary_headers() {
        // 1: 0.5, 7: 2.0
        let base64 = b"CQAAAAAAAOA/OQAAAAAAAABA";
        let expected = Ok(Some(LoadReport::default().with_cpu_utilization(0.5).with_eps(2.0)));
        assert_eq!(read(METRICS_BIN, base64), expected);
        assert_eq!(read(METRICS, &[b"BIN ", &base64[..]].concat()), expected);
        assert!(read(METRICS_BIN, b"%").unwrap_err().contains("endpoint-load-metrics-bin"));
    }
}
