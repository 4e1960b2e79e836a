//! Extractors for handlers: caller, task reference, query, body. Every refusal is a problem document; axum's own
//! extractors answer plain text and are therefore not used bare.

use crate::{access::Who, app::Shared, bodies::BodyBytes, refusal::Refusal};
use axum::{
    body::Body as HttpBody,
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use punctual_contract::{schedules::ScheduleKey, workflows::WorkflowId};
use punctual_domain::{
    key::Key,
    name::{Name, QueueKey},
    place::TaskRef,
    time::Span,
};
use punctual_protocol::{Code, FieldError, Invalid, headers, limits::IDEMPOTENCY_KEY_MAX_CHARS};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The caller, by headers and the guard.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    pub(crate) namespace: Name,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) traceparent: Option<String>,
}

impl Caller {
    pub(crate) fn of(parts: &Parts) -> Result<Self, Refusal> {
        let headers = &parts.headers;
        Ok(Self {
            who: Who::of(parts)?,
            namespace: namespace(headers)?,
            idempotency_key: idempotency_key(headers)?,
            traceparent: traceparent(headers),
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Self::of(parts)
    }
}

/// The maximum age of counts: `Cache-Control: max-age` of the request, as in HTTP. A request without it never gets
/// counts that are older than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxAge(pub(crate) Duration);

impl MaxAge {
    pub(crate) const NONE: Self = Self(Duration::ZERO);
    /// However much more is taken.
    const MAX_S: u64 = 60;

    fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|header| header.to_str().ok());
        let mut directives = lines.flat_map(|line| line.split(',')).map(str::trim);
        let seconds =
            directives.find_map(|directive| directive.strip_prefix("max-age=")?.parse::<u64>().ok());
        Self(Duration::from_secs(seconds.unwrap_or(0).min(Self::MAX_S)))
    }
}

impl<S: Sync> FromRequestParts<S> for MaxAge {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Ok(Self::of(&parts.headers))
    }
}

pub(crate) fn namespace(headers: &HeaderMap) -> Result<Name, Refusal> {
    let Some(value) = headers.get(headers::NAMESPACE) else { return Ok(Name::default_namespace()) };
    let text = String::from_utf8_lossy(value.as_bytes());
    Name::chosen(&text)
        .map_err(|error| Refusal::new(Code::RequestInvalid, format!("header Punctual-Namespace: {error}")))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(headers::IDEMPOTENCY_KEY) else { return Ok(None) };
    let visible = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    let key = visible.filter(|visible| (1..=IDEMPOTENCY_KEY_MAX_CHARS).contains(&visible.len()));
    key.map(|key| Some(key.to_owned())).ok_or_else(|| {
        let rule = format!(
            "header Idempotency-Key: must be 1 to {IDEMPOTENCY_KEY_MAX_CHARS} visible ASCII characters"
        );
        Refusal::new(Code::RequestInvalid, rule)
    })
}

fn traceparent(headers: &HeaderMap) -> Option<String> {
    well_formed(headers.get(headers::TRACEPARENT)?.to_str().ok()?)
}

/// One that is not well-formed is dropped, as the W3C asks: a broken trace must not fail a task.
pub(crate) fn well_formed(text: &str) -> Option<String> {
    let dashes = text.bytes().enumerate().all(|(at, byte)| match at {
        2 | 35 | 52 => byte == b'-',
        0..55 => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        _ => byte.is_ascii_graphic(),
    });
    (dashes && (55..=128).contains(&text.len())).then(|| text.to_owned())
}

/// The task in the path, by its reference or, after `key:`, by its key, which selects the highest version. Other text
/// names no task. The handler checks that the token reaches the task.
#[derive(Debug)]
pub(crate) struct TaskPath(pub(crate) TaskRef);

/// The prefix of keys. No reference begins with it.
const KEY_PREFIX: &str = "key:";

impl FromRequestParts<Shared> for TaskPath {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Refusal> {
        let text = segment(parts, app).await?;
        if let Some(key) = text.strip_prefix(KEY_PREFIX) {
            return by_key(app, &namespace(&parts.headers)?, key).await.map(Self);
        }
        text.parse().map(Self).map_err(|error: punctual_domain::place::InvalidRef| {
            Refusal::new(Code::TaskNotFound, error.to_string())
        })
    }
}

async fn by_key(app: &Shared, namespace: &Name, text: &str) -> Result<TaskRef, Refusal> {
    let none = |problem: String| Refusal::new(Code::TaskNotFound, problem);
    let key = Key::caller(text).map_err(|error| none(format!("a key {error}")))?;
    let found = app.engine.versions_of_key(namespace, &key, None, 1).await?.pop();
    found
        .map(|task| task.place)
        .ok_or_else(|| none(format!("the namespace has no task with the key {text:?}")))
}

/// The queue that the path names, in the caller's namespace.
#[derive(Debug)]
pub(crate) struct Queue(pub(crate) QueueKey);

impl<S: Send + Sync> FromRequestParts<S> for Queue {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let namespace = namespace(&parts.headers)?;
        let text = segment(parts, state).await?;
        let queue = Name::chosen(&text).map_err(|error| Refusal::field("/queue", error.to_string()))?;
        Ok(Self(QueueKey { namespace, queue }))
    }
}

/// The schedule that the path names, in the caller's namespace.
#[derive(Debug)]
pub(crate) struct ScheduleName(pub(crate) ScheduleKey);

impl<S: Send + Sync> FromRequestParts<S> for ScheduleName {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let namespace = namespace(&parts.headers)?;
        let text = segment(parts, state).await?;
        let name = Name::chosen(&text).map_err(|error| Refusal::field("/schedule", error.to_string()))?;
        Ok(Self(ScheduleKey { namespace, name }))
    }
}

/// The workflow that the path names. What is no reference names none.
#[derive(Debug)]
pub(crate) struct WorkflowRef(pub(crate) WorkflowId);

impl<S: Send + Sync> FromRequestParts<S> for WorkflowRef {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        workflow(&segment(parts, state).await?).map(Self)
    }
}

fn workflow(text: &str) -> Result<WorkflowId, Refusal> {
    let none = |_| Refusal::new(Code::WorkflowNotFound, "the namespace has no workflow of this reference");
    text.parse().map_err(none)
}

/// A workflow, and the name of one of its nodes.
#[derive(Debug)]
pub(crate) struct WorkflowNodeName(pub(crate) WorkflowId, pub(crate) Name);

impl<S: Send + Sync> FromRequestParts<S> for WorkflowNodeName {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path((id, node)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|error| Refusal::new(Code::RequestInvalid, error.to_string()))?;
        let node = Name::chosen(&node).map_err(|error| Refusal::field("/node", error.to_string()))?;
        Ok(Self(workflow(&id)?, node))
    }
}

/// The bulk operation that the path names. What is no number names none.
#[derive(Debug)]
pub(crate) struct BulkId(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for BulkId {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = segment(parts, state).await?;
        let unknown = |_| Refusal::new(Code::BulkNotFound, format!("{text:?} is no id of a bulk operation"));
        text.parse().map(Self).map_err(unknown)
    }
}

/// The database that the path names by its number.
#[derive(Debug)]
pub(crate) struct ShardNo(pub(crate) usize);

impl<S: Send + Sync> FromRequestParts<S> for ShardNo {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = segment(parts, state).await?;
        text.parse().map(Self).map_err(|_| Refusal::field("/shard", "is no number of a database, from 0"))
    }
}

/// The executor that the path names.
#[derive(Debug)]
pub(crate) struct ExecutorName(pub(crate) Name);

impl<S: Send + Sync> FromRequestParts<S> for ExecutorName {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = segment(parts, state).await?;
        Name::chosen(&text).map(Self).map_err(|error| Refusal::field("/executor", error.to_string()))
    }
}

/// A segment of the path, as it was written.
#[derive(Debug)]
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        segment(parts, state).await.map(Self)
    }
}

async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Refusal> {
    let bad = |error: axum::extract::rejection::PathRejection| {
        Refusal::new(Code::RequestInvalid, format!("path: {}", error.body_text()))
    };
    Path::<String>::from_request_parts(parts, state).await.map(|Path(request_part)| request_part).map_err(bad)
}

/// The parameters of a query; unknown ones are refused by name.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn query<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    if let Some(name) = text.split('&').find_map(not_utf8) {
        let detail =
            "has bytes that are not UTF-8 behind its % signs: encode the text as UTF-8, so é is %C3%A9";
        return Err(Refusal::field(&format!("/{name}"), detail.to_owned()));
    }
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let said = error.inner().to_string();
        let unknown = said.starts_with("unknown field");
        let detail = punctual_protocol::fault_in_words(&said);
        let code = if unknown { Code::RequestUnknownField } else { Code::RequestInvalid };
        let named = error.path().iter().next().map(|segment| format!("/{segment}"));
        let pointer = named.filter(|pointer| pointer != "/?").unwrap_or_else(|| quoted(&said));
        Invalid { code, errors: vec![FieldError::new(pointer, detail)] }.into()
    })
}

/// The name of a parameter whose name or value is not UTF-8. The reader of queries would put another character in the place of
/// such bytes, and something else would be searched.
fn not_utf8(pair: &str) -> Option<String> {
    let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
    let name = String::from_utf8_lossy(&decoded(name)).into_owned();
    str::from_utf8(&decoded(pair)).is_err().then_some(name)
}

/// `%41` is a byte; any other `%` represents itself.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let escaped = match after {
            [high, low, ..] if *byte == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The parameter that a message names in backticks: the first one it quotes.
fn quoted(detail: &str) -> String {
    detail.split('`').nth(1).map(|part| format!("/{part}")).unwrap_or_default()
}

/// Refuses a query where none is known.
pub(crate) fn no_query(text: &str) -> Result<(), Refusal> {
    let Some((name, _)) = form_urlencoded::parse(text.as_bytes()).next() else { return Ok(()) };
    let detail = format!("unknown query parameter `{name}`: this call takes none");
    let errors = vec![FieldError::new(format!("/{name}"), detail)];
    Err(Invalid { code: Code::RequestUnknownField, errors }.into())
}

/// The complete body, which is JSON or empty.
#[derive(Debug)]
pub(crate) struct Body(pub(crate) Bytes);

impl FromRequest<Shared> for Body {
    type Rejection = Refusal;
    async fn from_request(request: Request, app: &Shared) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(app, &parts, body).await?;
        if bytes.is_empty() || is_json(&parts.headers) {
            return Ok(Self(bytes));
        }
        let given =
            parts.headers.get(header::CONTENT_TYPE).map(|header| String::from_utf8_lossy(header.as_bytes()));
        let detail = given.map_or_else(
            || "it has no Content-Type".to_owned(),
            |given| format!("its Content-Type is {given}"),
        );
        Err(Refusal::new(Code::RequestUnsupportedMediaType, detail))
    }
}

/// `application/json` or `application/…+json`, with whatever parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// The encodings of a body, if it has any. A compressed body could be of any length: none is read.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let named = headers.get_all(header::CONTENT_ENCODING).iter();
    let named = named.map(|header| String::from_utf8_lossy(header.as_bytes()).trim().to_ascii_lowercase());
    named
        .flat_map(|text| text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>())
        .find(|part| !part.is_empty() && part != "identity")
}

/// A client that sends too much is heard to the end, up to this many times the limit, before it is refused: one that
/// is cut off while it sends sees a broken connection, and never the reason.
const HEARD_OUT: usize = 4;

/// Reads a body within the limits of size and time. A body that arrives so slowly that its token ends meanwhile is refused.
pub(crate) async fn read_body(app: &Shared, parts: &Parts, body: HttpBody) -> Result<Bytes, Refusal> {
    let headers = &parts.headers;
    if let Some(encoding) = encoding(headers) {
        let detail = format!("its Content-Encoding is {encoding}; send it as it is");
        return Err(Refusal::new(Code::RequestUnsupportedMediaType, detail));
    }
    let limit = app.options.batch_body_max_bytes;
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|header| header.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|declared| declared > limit.saturating_mul(HEARD_OUT)) {
        return Err(too_large(limit));
    }
    let reading = collect(app, body, declared.unwrap_or(0));
    let read = tokio::time::timeout(app.options.body_timeout, reading).await.unwrap_or_else(|_| {
        Err(Refusal::new(
            Code::RequestTimeout,
            format!("no whole body within {}", Span::of(app.options.body_timeout)),
        ))
    })?;
    Who::of(parts)?.must_be_good_still(app)?;
    Ok(read)
}

/// Room that is made for a body because it was announced; more when it comes.
const ANNOUNCED_MAX_BYTES: usize = 256 << 10;

async fn collect(app: &Shared, body: HttpBody, announced: usize) -> Result<Bytes, Refusal> {
    let limit = app.options.batch_body_max_bytes;
    let all_max = app.options.bodies_max_bytes.max(limit);
    let mut kept = BodyBytes::of(&app.bodies_bytes);
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::with_capacity(announced.min(ANNOUNCED_MAX_BYTES));
    let mut heard = 0_usize;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| broken_off(&error))?;
        heard = heard.saturating_add(chunk.len());
        if heard <= limit {
            if !kept.grow(chunk.len(), all_max) {
                return Err(Refusal::new(Code::Overload, "the bodies of all requests together are too long"));
            }
            whole.extend_from_slice(&chunk);
        } else if heard > limit.saturating_mul(HEARD_OUT) {
            break;
        }
    }
    if heard > limit { Err(too_large(limit)) } else { Ok(kept.bytes(whole.freeze())) }
}

/// A body that ends before its end: the connection did, or the framing is one that two readers could take differently.
fn broken_off(error: &axum::Error) -> Refusal {
    let source = std::error::Error::source(error);
    let mut sources = std::iter::successors(source, |error| error.source());
    let framing = sources.find_map(|error| {
        error.downcast_ref::<std::io::Error>().filter(|error| error.kind() == std::io::ErrorKind::InvalidData)
    });
    match framing {
        Some(fault) => Refusal::new(Code::RequestMalformedHttp, fault.to_string()),
        None => Refusal::new(Code::RequestInvalid, format!("the body broke off: {error}")),
    }
}

fn too_large(limit: usize) -> Refusal {
    Refusal::new(Code::RequestTooLarge, format!("a body may have at most {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_protocol::SearchTasks;

    #[test]
    fn a_query_is_refused_by_the_name_of_its_parameter() {
        for (text, code, pointer) in [
            ("lable=a", Code::RequestUnknownField, "/lable"),
            ("limit=x", Code::RequestInvalid, "/limit"),
            ("limit=", Code::RequestInvalid, "/limit"),
            ("limit=-1", Code::RequestInvalid, "/limit"),
            ("limit=99999999999999999999", Code::RequestInvalid, "/limit"),
            ("limit=1&limit=2", Code::RequestInvalid, "/limit"),
            ("state=asleep", Code::RequestInvalid, "/state"),
            ("task_id=seven", Code::RequestInvalid, "/task_id"),
            ("due_after=soon", Code::RequestInvalid, "/due_after"),
            ("label=a=%ff", Code::RequestInvalid, "/label"),
            ("limit=1&label=%C3%28", Code::RequestInvalid, "/label"),
        ] {
            let problem = query::<SearchTasks>(text).unwrap_err().into_problem();
            assert!(problem.is(code), "{text}: {problem}");
            assert_eq!(
                problem.errors.first().map(|error| error.pointer.as_str()),
                Some(pointer),
                "{text}: {problem}"
            );
            let said = &problem.errors[0].detail;
            let readers =
                ["invalid digit", "target type", "unknown variant", "invalid type", "invalid value"];
            assert!(!readers.iter().any(|words| said.contains(words)), "{text}: {said}");
        }
    }

    #[test]
    fn utf8_behind_percent_signs_is_read_and_a_percent_sign_alone_stands_for_itself() {
        for (text, label) in [
            ("label=a=%C3%A9", "a=é"),
            ("label=a%3D100%", "a=100%"),
            ("label=%zz=%4", "%zz=%4"),
            ("label=é=1", "é=1"),
        ] {
            assert_eq!(query::<SearchTasks>(text).unwrap().label.as_deref(), Some(label), "{text}");
        }
    }

    #[test]
    fn only_a_well_formed_traceparent_is_kept() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let bad = ["", "00-0af7", &good.to_uppercase(), &good.replace('-', "_"), &format!("{good}é")];
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers
                .insert(headers::TRACEPARENT, axum::http::HeaderValue::from_bytes(text.as_bytes()).unwrap());
            traceparent(&headers)
        };
        assert_eq!(read(good).as_deref(), Some(good));
        for text in bad {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
