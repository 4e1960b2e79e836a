//! The request of one delivery: headers, signature and body. Must not send it.

use crate::{
    guard::{checked_header, checked_url},
    signature::signatures,
};
use punctual_domain::{
    name::QueueKey,
    settings::{BodyFormat, Webhook},
    time::Millis,
};
use punctual_protocol::{At, Base64, Json, LeasedTask};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Serialize;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) allow_private: bool,
}

/// The body of the format `standard`.
#[derive(Serialize)]
struct DeliveryBody<'a> {
    r#ref: &'a str,
    task_id: i64,
    task_version: i64,
    queue: &'a str,
    kind: &'a str,
    attempt: u32,
    execute_at_ms: i64,
    fired_at_ms: i64,
    payload: Option<&'a Json>,
    /// Bytes, instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<&'a Base64>,
    token: &'a str,
}

/// The body of the format `cloudevents`: version 1.0, structured.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    r#type: &'static str,
    subject: &'a str,
    time: At,
    datacontenttype: &'static str,
    data: DeliveryBody<'a>,
}

/// The same for each request of an attempt.
pub(crate) fn webhook_id(task: &LeasedTask) -> String {
    format!("{}.{}", task.r#ref, task.attempt)
}

/// # Errors
/// If the settings do not allow a request. They are checked when they are set; an older program may have stored them.
pub(crate) fn request(
    queue: &QueueKey,
    webhook: &Webhook,
    task: &LeasedTask,
    now: Millis,
) -> Result<Request, String> {
    let url = checked_url(&webhook.url, webhook.allow_private).map_err(|why| format!("webhook.url {why}"))?;
    let id = webhook_id(task);
    let format = webhook.format.unwrap_or_default();
    let body = body(queue, task, &id, format)?;
    let timestamp_s = now.0.div_euclid(1_000);
    let mut headers = HeaderMap::new();
    for (name, value) in &webhook.headers {
        let (name, value) = checked_header(name, value.reveal())
            .map_err(|why| format!("the header {name:?} of webhook.headers {why}"))?;
        headers.insert(name, value);
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(match format {
            BodyFormat::Standard => "application/json",
            BodyFormat::Cloudevents => "application/cloudevents+json; charset=utf-8",
        }),
    );
    let mut set = |name: &'static str, value: &str| {
        let value = HeaderValue::try_from(value).map_err(|error| format!("header {name}: {error}"))?;
        headers.insert(HeaderName::from_static(name), value);
        Ok::<_, String>(())
    };
    set("webhook-id", &id)?;
    set("webhook-timestamp", &timestamp_s.to_string())?;
    if let Some(secret) = &webhook.secret {
        let signed = signatures(secret.reveal(), &id, timestamp_s, &body)
            .map_err(|why| format!("webhook.secret {why}"))?;
        set("webhook-signature", &signed)?;
    }
    if let Some(traceparent) = &task.traceparent {
        set("traceparent", traceparent)?;
    }
    Ok(Request { url, headers, body, allow_private: webhook.allow_private })
}

fn body(queue: &QueueKey, task: &LeasedTask, id: &str, format: BodyFormat) -> Result<Vec<u8>, String> {
    let data = DeliveryBody {
        r#ref: &task.r#ref,
        task_id: task.task_id,
        task_version: task.task_version,
        queue: &task.queue,
        kind: &task.kind,
        attempt: task.attempt,
        execute_at_ms: task.execute_at_ms,
        fired_at_ms: task.fired_at_ms,
        payload: task.payload.as_ref(),
        payload_base64: task.payload_base64.as_ref(),
        token: &task.token,
    };
    let encoded = match format {
        BodyFormat::Standard => serde_json::to_vec(&data),
        BodyFormat::Cloudevents => serde_json::to_vec(&CloudEvent {
            specversion: "1.0",
            id,
            source: format!("/punctual/{}/{}", queue.namespace.as_str(), queue.queue.as_str()),
            r#type: "punctual.task.fired",
            subject: &task.r#ref,
            time: At::from_ms(task.fired_at_ms),
            datacontenttype: "application/json",
            data,
        }),
    };
    encoded.map_err(|error| format!("the task has no JSON form: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{name::Name, settings::Secret};

    fn queue() -> QueueKey {
        QueueKey { namespace: Name::new("eu").unwrap(), queue: Name::new("mail").unwrap() }
    }

    fn task() -> LeasedTask {
        LeasedTask {
            r#ref: "t1".to_owned(),
            queue: "mail".to_owned(),
            kind: "welcome".to_owned(),
            attempt: 2,
            token: "7-30000".to_owned(),
            fired_at_ms: 1_900_000_000_123,
            payload: Some(Json::from_text("{\"a\": 1.50}".to_owned()).unwrap()),
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            ..LeasedTask::default()
        }
    }

    fn webhook() -> Webhook {
        Webhook {
            url: "https://example.org/hook".to_owned(),
            secret: Some(Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
            headers: [("x-team".to_owned(), Secret::new("blue"))].into(),
            ..Webhook::default()
        }
    }

    #[test]
    fn a_request_has_the_task_and_who_sent_it() {
        let request = request(&queue(), &webhook(), &task(), Millis(1_900_000_001_999)).unwrap();
        assert_eq!(
            String::from_utf8(request.body).unwrap(),
            concat!(
                r#"{"ref":"t1","task_id":0,"task_version":0,"queue":"mail","kind":"welcome","attempt":2,"execute_at_ms":0,"#,
                r#""fired_at_ms":1900000000123,"payload":{"a": 1.50},"token":"7-30000"}"#
            )
        );
        for (name, value) in [
            ("webhook-id", "t1.2"),
            ("webhook-timestamp", "1900000001"),
            ("content-type", "application/json"),
            ("x-team", "blue"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(request.headers[name], value);
        }
        assert!(request.headers["webhook-signature"].to_str().unwrap().starts_with("v1,"));
    }

    #[test]
    fn a_cloud_event_has_the_same_data() {
        let webhook = Webhook { format: Some(BodyFormat::Cloudevents), secret: None, ..webhook() };
        let request = request(&queue(), &webhook, &task(), Millis(0)).unwrap();
        let event: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(event["specversion"], "1.0");
        assert_eq!((&event["id"], &event["source"]), (&"t1.2".into(), &"/punctual/eu/mail".into()));
        assert_eq!(event["time"], "2030-03-17T17:46:40.123Z");
        assert_eq!(event["data"]["token"], "7-30000");
        assert!(!request.headers.contains_key("webhook-signature"));
    }

    #[test]
    fn bytes_are_sent_as_base64() {
        let task = LeasedTask { payload: None, payload_base64: Some(Base64(vec![0, 255])), ..task() };
        let request = request(&queue(), &webhook(), &task, Millis(0)).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!((&body["payload"], &body["payload_base64"]), (&serde_json::Value::Null, &"AP8=".into()));
    }
}
