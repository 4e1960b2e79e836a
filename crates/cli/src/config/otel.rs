//! Variables to which OpenTelemetry gives the meaning of settings of ours. Pure.

use super::keys::{
    TRACES_HEADERS, TRACES_PROTOCOL, TRACES_RESOURCE, TRACES_SERVICE_NAME, TRACES_TIMEOUT_MS, TRACES_URL,
};

/// The variable whose value is the complete address, with the path.
pub(super) const WHOLE_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// They override the configuration file; `PUNCTUAL_…` variables and flags override them. A later one overrides an earlier one.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("OTEL_EXPORTER_OTLP_ENDPOINT", TRACES_URL),
    (WHOLE_ENDPOINT, TRACES_URL),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", TRACES_PROTOCOL),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", TRACES_PROTOCOL),
    ("OTEL_EXPORTER_OTLP_HEADERS", TRACES_HEADERS),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", TRACES_HEADERS),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", TRACES_TIMEOUT_MS),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", TRACES_TIMEOUT_MS),
    ("OTEL_SERVICE_NAME", TRACES_SERVICE_NAME),
    ("OTEL_RESOURCE_ATTRIBUTES", TRACES_RESOURCE),
];

/// These turn the export off, even if the configuration file has an address. A `PUNCTUAL_…` variable or a flag turns it on again.
pub(super) fn turns_off(variable: &str, value: &str) -> bool {
    match variable {
        "OTEL_SDK_DISABLED" => value.eq_ignore_ascii_case("true"),
        "OTEL_TRACES_EXPORTER" => value.trim() == "none",
        _ => false,
    }
}

/// True for a variable of the exporter of traces that is not supported.
pub(super) fn is_unused(variable: &str) -> bool {
    let of_traces = ["COMPRESSION", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY", "INSECURE"];
    let name = variable.strip_prefix("OTEL_EXPORTER_OTLP_");
    name.is_some_and(|name| of_traces.contains(&name.trim_start_matches("TRACES_")))
}
