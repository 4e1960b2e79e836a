//! The destination and the protocol of traces. Opens nothing.

use super::{
    Error, Layers,
    keys::{
        TRACES_HEADERS, TRACES_PERCENT, TRACES_PROTOCOL, TRACES_RESOURCE, TRACES_SERVICE_NAME,
        TRACES_TIMEOUT_MS, TRACES_URL,
    },
    otel::WHOLE_ENDPOINT,
    source::SettingSource,
};
use punctual_traces::{Options, headers, pairs};
use std::time::Duration;

fn is_of_opentelemetry(from: &SettingSource) -> bool {
    matches!(from, SettingSource::Environment(variable) if variable.starts_with("OTEL_"))
}

pub(super) fn traces(layers: &Layers) -> Result<Option<Options>, Error> {
    let sample_percent = layers.number(TRACES_PERCENT, 0..=100)?;
    let timeout = Duration::from_millis(layers.number(TRACES_TIMEOUT_MS, 1..=60_000)?);
    let protocol = layers.get(TRACES_PROTOCOL).text.trim().parse();
    let protocol = protocol.map_err(|reason: String| layers.invalid(TRACES_PROTOCOL, reason))?;
    let given = layers.get(TRACES_HEADERS);
    let headers = headers(&given.text, is_of_opentelemetry(&given.from));
    let headers = headers.map_err(|reason| layers.invalid(TRACES_HEADERS, reason))?;
    let resource = pairs(&layers.get(TRACES_RESOURCE).text, true);
    let mut resource = resource.map_err(|reason| layers.invalid(TRACES_RESOURCE, reason))?;
    let service = layers.get(TRACES_SERVICE_NAME);
    let is_named = resource.iter().any(|(name, _)| name == "service.name");
    if service.from != SettingSource::Default || !is_named {
        resource.retain(|(name, _)| name != "service.name");
        resource.insert(0, ("service.name".to_owned(), service.text));
    }
    let given = layers.get(TRACES_URL);
    let base = given.text.trim();
    let endpoint = match &given.from {
        SettingSource::Environment(variable) if variable == WHOLE_ENDPOINT => base.to_owned(),
        _ => format!("{}/v1/traces", base.trim_end_matches('/')),
    };
    match base.split_once("://") {
        Some(("http" | "https", _)) => {
            Ok(Some(Options { endpoint, protocol, timeout, resource, sample_percent, headers }))
        }
        None if base.is_empty() => Ok(None),
        _ => Err(layers.invalid(TRACES_URL, "must be http:// or https:// and a host")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_traces::Protocol;

    fn with(variables: &[(&str, &str)]) -> Result<Option<Options>, Error> {
        let mut layers = Layers::defaults();
        layers.environment(variables.iter().map(|(name, value)| (name.to_string(), value.to_string())))?;
        traces(&layers)
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn the_variables_of_opentelemetry_are_heard_and_ours_go_before_them() {
        assert!(with(&[]).unwrap().is_none());
        let of_all = with(&[
            BASE,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,team=a%20b"),
        ]);
        let of_all = of_all.unwrap().unwrap();
        assert_eq!(of_all.endpoint, "http://collector:4318/v1/traces");
        assert_eq!((of_all.protocol, of_all.timeout.as_millis()), (Protocol::Protobuf, 1_500));
        assert_eq!(of_all.headers["authorization"], "Bearer x");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(of_all.resource, [pair("service.name", "shop"), pair("team", "a b")]);

        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector/otlp");
        let service = ("OTEL_SERVICE_NAME", "mailer");
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop");
        let of_traces = with(&[BASE, whole, service, attributes]).unwrap().unwrap();
        assert_eq!(of_traces.endpoint, "https://collector/otlp");
        assert_eq!(of_traces.resource, [pair("service.name", "mailer")]);

        let ours = with(&[BASE, ("PUNCTUAL_TRACES_OTLP_URL", "http://ours")]).unwrap().unwrap();
        assert_eq!(ours.endpoint, "http://ours/v1/traces");
        assert_eq!(ours.protocol, Protocol::Json);
        assert_eq!(ours.resource, [pair("service.name", "punctual")]);
    }

    #[test]
    fn variables_of_opentelemetry_override_the_file_and_ours_override_them() {
        let endpoint = |variables: &[(&str, &str)]| {
            let mut layers = Layers::defaults();
            layers.file(std::path::Path::new("p.toml"), "[traces]\notlp_url = 'http://file'\n").unwrap();
            let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            layers.environment(variables).unwrap();
            traces(&layers).unwrap().map(|options| options.endpoint)
        };
        assert_eq!(endpoint(&[]).as_deref(), Some("http://file/v1/traces"));
        assert_eq!(endpoint(&[BASE]).as_deref(), Some("http://collector:4318/v1/traces"));
        let off = ("OTEL_SDK_DISABLED", "true");
        assert_eq!(endpoint(&[off]), None);
        let ours = ("PUNCTUAL_TRACES_OTLP_URL", "http://ours");
        assert_eq!(endpoint(&[BASE, off, ours]).as_deref(), Some("http://ours/v1/traces"));
    }

    #[test]
    fn what_turns_it_off_does_and_what_is_not_spoken_is_refused_with_the_variable() {
        for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(with(&[BASE, off]).unwrap().is_none(), "{off:?}");
        }
        assert!(with(&[BASE, ("OTEL_SDK_DISABLED", "false")]).unwrap().is_some());
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "5s"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_RESOURCE_ATTRIBUTES", "shop"),
        ] {
            let said = with(&[BASE, (variable, value)]).unwrap_err().to_string();
            assert!(said.contains(variable) && said.contains(value), "{said}");
        }
        let mut layers = Layers::defaults();
        let unused = ("OTEL_EXPORTER_OTLP_COMPRESSION".to_owned(), "gzip".to_owned());
        layers.environment([unused]).unwrap();
        assert_eq!(layers.unused_variables, ["OTEL_EXPORTER_OTLP_COMPRESSION"]);
    }
}
