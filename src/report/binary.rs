//! The protobuf message `xds.data.orca.v3.OrcaLoadReport`, as base64 in headers and trailers.

use std::collections::BTreeMap;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message;

use super::LoadReport;

/// With padding or without: gRPC leaves it away.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Clone, PartialEq, Message)]
struct OrcaLoadReport {
    #[prost(double, tag = "1")]
    cpu_utilization: f64,
    #[prost(double, tag = "2")]
    mem_utilization: f64,
    /// The older field of requests per second.
    #[prost(uint64, tag = "3")]
    rps: u64,
    #[prost(btree_map = "string, double", tag = "4")]
    request_cost: BTreeMap<String, f64>,
    #[prost(btree_map = "string, double", tag = "5")]
    utilization: BTreeMap<String, f64>,
    #[prost(double, tag = "6")]
    rps_fractional: f64,
    #[prost(double, tag = "7")]
    eps: f64,
    #[prost(btree_map = "string, double", tag = "8")]
    named_metrics: BTreeMap<String, f64>,
    #[prost(double, tag = "9")]
    application_utilization: f64,
}

pub(super) fn base64(text: &[u8]) -> Result<LoadReport, String> {
    let bytes = BASE64.decode(text.trim_ascii()).map_err(|error| format!("it is no base64: {error}"))?;
    protobuf(&bytes)
}

#[allow(clippy::cast_precision_loss)] // requests per second
pub(super) fn protobuf(bytes: &[u8]) -> Result<LoadReport, String> {
    let read = OrcaLoadReport::decode(bytes).map_err(|error| format!("it is no OrcaLoadReport: {error}"))?;
    Ok(LoadReport {
        cpu_utilization: read.cpu_utilization,
        mem_utilization: read.mem_utilization,
        application_utilization: read.application_utilization,
        qps: if read.rps_fractional == 0.0 { read.rps as f64 } else { read.rps_fractional },
        eps: read.eps,
        utilization: read.utilization,
        request_cost: read.request_cost,
        named_metrics: read.named_metrics,
        ..LoadReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1: 0.5, 6: 100.0, 7: 2.0, 8: {"q": 3.0}, 9: 0.25`, byte by byte.
    fn message() -> Vec<u8> {
        let double = |field: u8, value: f64| [&[field << 3 | 1][..], &value.to_le_bytes()].concat();
        let entry = [&[0x0a, 1, b'q'][..], &double(2, 3.0)].concat();
        let map = [&[8 << 3 | 2, u8::try_from(entry.len()).unwrap()][..], &entry].concat();
        [double(1, 0.5), double(6, 100.0), double(7, 2.0), map, double(9, 0.25)].concat()
    }

    #[test]
    fn lbs_orca_as_protobuf() {
        let expected = LoadReport::default()
            .with_cpu_utilization(0.5)
            .with_application_utilization(0.25)
            .with_qps(100.0)
            .with_eps(2.0)
            .with_named_metric("q", 3.0);
        assert_eq!(protobuf(&message()), Ok(expected.clone()));
        let text = base64::engine::general_purpose::STANDARD.encode(message());
        assert!(text.ends_with('='), "there is something to leave away: {text}");
        assert_eq!(base64(text.as_bytes()), Ok(expected.clone()));
        assert_eq!(base64(text.trim_end_matches('=').as_bytes()), Ok(expected));
        // Field 3 as a number: 300.
        assert_eq!(protobuf(&[3 << 3, 0xac, 0x02]), Ok(LoadReport::default().with_qps(300.0)));
        assert_eq!(protobuf(&[]), Ok(LoadReport::default()));
    }

    #[test]
    fn what_is_none_is_an_error_that_says_why() {
        assert!(base64(b"!").unwrap_err().contains("no base64"));
        assert!(protobuf(&[9, 1]).unwrap_err().contains("no OrcaLoadReport"));
    }
}
