//! The OpenAPI document: the handlers' own documentation, and the parts that many of them share and would otherwise
//! be forgotten: headers, and the problems that a call may answer.

use crate::access;
use punctual_protocol::{Code, PROBLEM_CONTENT_TYPE, Problem, headers};
use utoipa::{
    OpenApi as _,
    openapi::{
        ContentBuilder, HeaderBuilder, Object, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema, Type,
        example::ExampleBuilder,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem},
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Punctual",
        description = "Keeps tasks safely until their time, fires them to the millisecond and never early, and hands them to executors.\n\n\
            Times: `..._at` fields are RFC 3339 in UTC with milliseconds, each has a twin `..._at_ms` in epoch milliseconds; requests take either. \
            64-bit ids are JSON integers and are accepted as decimal strings too. Unknown fields and parameters are refused. \
            Every error is a problem document (RFC 9457) with a stable `code`; /docs/errors explains each.",
    ),
    tags(
        (name = "tasks", description = "Insert, read, change"),
        (name = "executors", description = "Executors that pull, and who they are"),
        (name = "dead letters", description = "Tasks that will not run again by themselves"),
        (name = "bulk operations", description = "One action on all tasks that match"),
        (name = "queues", description = "Queues"),
        (name = "workflows", description = "Tasks that follow from each other"),
        (name = "namespaces", description = "Namespaces: tenants, with their limits"),
        (name = "access", description = "Tokens, and who changed what"),
        (name = "operation", description = "Health, metrics, this document"),
    ),
    components(schemas(Problem)),
)]
struct Base;

/// Title, tags, and what no handler owns.
pub(crate) fn base() -> OpenApi {
    let mut document = Base::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    let mut scheme = Http::new(HttpAuthScheme::Bearer);
    scheme.description = Some(
        "A token, as `punctual token create` or POST /v1/tokens has answered it. Where there are none, none is needed.".to_owned(),
    );
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(access::SCHEME, SecurityScheme::Http(scheme));
    document
}

/// Adds headers and problems to every operation.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    if let Some(components) = &mut document.components {
        components.schemas.values_mut().for_each(without_defaults);
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let id = operation.operation_id.clone().unwrap_or_default();
            let mut codes = refusals(&id, path, method);
            if operation.security.is_some() {
                codes.extend([
                    Code::AuthRequired,
                    Code::AuthDenied,
                    Code::AuthSlowed,
                    Code::StoreUnavailable,
                ]);
                codes.sort_by_key(|code| code.status());
                codes.dedup();
            }
            describe(operation, path, method);
            for code in codes {
                add_problem(operation, code);
            }
        }
    }
    document
}

/// Generators take a property with a default for one that is always there, and then ask their callers for it. What holds
/// where nothing is given is in the descriptions.
fn without_defaults(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            object.default = None;
            object.properties.values_mut().for_each(without_defaults);
        }
        Schema::Array(array) => array.default = None,
        Schema::OneOf(one_of) => {
            one_of.default = None;
            one_of.items.iter_mut().for_each(without_defaults);
        }
        Schema::AllOf(all_of) => {
            all_of.default = None;
            all_of.items.iter_mut().for_each(without_defaults);
        }
        Schema::AnyOf(any_of) => {
            any_of.default = None;
            any_of.items.iter_mut().for_each(without_defaults);
        }
        _ => {}
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PATCH", &mut item.patch),
        ("PUT", &mut item.put),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn describe(operation: &mut Operation, path: &str, method: &str) {
    if !path.starts_with("/v1/") {
        return;
    }
    let namespace = "Namespace of the call; `default` when absent.";
    add_header(operation, "Punctual-Namespace", namespace);
    if method == "POST" && !path.starts_with("/v1/tokens") {
        let key = "1 to 255 visible characters. The same request with the same key gets the first answer again, for 24 hours, with `Idempotency-Replayed: true`.";
        add_header(operation, "Idempotency-Key", key);
        replayed(operation);
    }
    if path.starts_with("/v1/tasks")
        && operation.operation_id.as_deref().is_some_and(|operation_id| operation_id.starts_with("insert"))
    {
        add_header(
            operation,
            headers::TRACEPARENT,
            "W3C trace context; stored with the task and handed to its executor.",
        );
    }
}

fn replayed(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let header = HeaderBuilder::new().schema(Some(Object::with_type(Type::String))).description(
                Some("`true` on an answer that was given before under the same Idempotency-Key."),
            );
            response.headers.insert("Idempotency-Replayed".to_owned(), RefOr::T(header.build()));
        }
    }
}

fn add_header(operation: &mut Operation, name: &str, description: &str) {
    let parameter: Parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(Object::with_type(Type::String)))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(parameter));
}

/// The problems that a call may answer.
fn refusals(operation_id: &str, path: &str, method: &str) -> Vec<Code> {
    let mut codes = vec![Code::Internal, Code::AuthOriginRefused];
    if path.starts_with("/v1/") {
        codes.extend([
            Code::RequestInvalid,
            Code::RequestUnknownField,
            Code::Overload,
            Code::StoreUnavailable,
        ]);
    }
    if method != "GET" {
        codes.extend([
            Code::RequestMalformedJson,
            Code::RequestTooLarge,
            Code::RequestUnsupportedMediaType,
            Code::RequestTimeout,
            Code::StoreOutcomeUnknown,
        ]);
    }
    if method == "POST" {
        codes.extend([Code::IdempotencyInProgress, Code::IdempotencyKeyReused]);
    }
    if path.contains("{ref}") {
        codes.push(Code::TaskNotFound);
    }
    if path.contains("{executor}") {
        codes.push(Code::ExecutorNotFound);
    }
    if path.contains("{workflow}") {
        codes.push(Code::WorkflowNotFound);
    }
    if path.starts_with("/v1/tokens/") {
        codes.push(Code::TokenNotFound);
    }
    codes.extend(own_refusals(operation_id));
    codes
}

fn own_refusals(operation_id: &str) -> &'static [Code] {
    match operation_id {
        "insert_task" => &[
            Code::TaskVersionSuperseded,
            Code::TaskExists,
            Code::QueueFull,
            Code::QuotaInsertRate,
            Code::QuotaPayloadBytes,
            Code::NamespaceDeleting,
            Code::NamespaceNotFound,
        ],
        "lease_tasks" | "lease_tasks_from_several" => &[Code::NamespaceDeleting, Code::NamespaceNotFound],
        "get_queue" | "get_queue_stats" => &[Code::QueueNotFound],
        "put_queue" | "patch_queue" => {
            &[Code::PreconditionFailed, Code::TaskContended, Code::NamespaceDeleting, Code::NamespaceNotFound]
        }
        "reset_queue" => &[Code::PreconditionFailed, Code::TaskContended],
        "pause_queue" => &[Code::TaskContended, Code::NamespaceDeleting, Code::NamespaceNotFound],
        "resume_queue" => &[Code::TaskContended],
        "scan_queue" => &[Code::QueueNotScanned, Code::NamespaceDeleting, Code::NamespaceNotFound],
        "put_namespace" => &[Code::PreconditionFailed, Code::TaskContended, Code::NamespaceDeleting],
        "delete_namespace" => &[Code::TaskContended, Code::NamespaceNotFound],
        "put_limits" => &[Code::PreconditionFailed],
        "patch_task" => &[
            Code::TaskAlreadyFired,
            Code::PreconditionFailed,
            Code::TaskContended,
            Code::QuotaPayloadBytes,
            Code::QueueFull,
        ],
        "cancel_task" | "run_task_now" => &[Code::TaskAlreadyFired, Code::TaskContended],
        "redrive_task" => &[Code::TaskNotDead, Code::QuotaPayloadBytes, Code::TaskContended],
        "create_workflow" | "rerun_workflow" => &[
            Code::QueueFull,
            Code::QuotaInsertRate,
            Code::QuotaPayloadBytes,
            Code::NamespaceDeleting,
            Code::NamespaceNotFound,
        ],
        "cancel_workflow" => &[Code::WorkflowWrongState, Code::WorkflowContended],
        "retry_workflow" => &[
            Code::WorkflowWrongState,
            Code::WorkflowContended,
            Code::NamespaceDeleting,
            Code::NamespaceNotFound,
        ],
        "skip_node" => &[Code::WorkflowWrongState, Code::WorkflowContended, Code::WorkflowNodeNotFound],
        "bury_task" => &[Code::TaskAlreadyFired, Code::TaskContended],
        "delete_task" => &[Code::TaskNotFinished],
        "confirm_bulk" => &[
            Code::BulkNotFound,
            Code::BulkWrongState,
            Code::BulkPreviewExpired,
            Code::PreconditionFailed,
            Code::BulkContended,
            Code::NamespaceDeleting,
            Code::NamespaceNotFound,
        ],
        "pause_bulk" | "resume_bulk" | "stop_bulk" | "repeat_bulk" => {
            &[Code::BulkNotFound, Code::BulkWrongState, Code::BulkContended]
        }
        "get_bulk" | "list_bulk_tasks" | "list_bulk_failures" => &[Code::BulkNotFound],
        "create_bulk" => &[Code::NamespaceDeleting, Code::NamespaceNotFound],
        "rotate_token" => &[Code::TokenRevoked],
        "readyz" => {
            &[Code::AuthRequired, Code::AuthSlowed, Code::StoreUnavailable, Code::NotFiring, Code::Stopping]
        }
        _ => &[],
    }
}

/// Problems of one status share a response; each code is an example in it.
fn add_problem(operation: &mut Operation, code: Code) {
    let info = code.info();
    let responses = &mut operation.responses.responses;
    let response = responses.entry(info.status.to_string()).or_insert_with(|| {
        let schema = Ref::from_schema_name("Problem");
        let content = ContentBuilder::new().schema(Some(schema)).build();
        RefOr::T(ResponseBuilder::new().content(PROBLEM_CONTENT_TYPE, content).build())
    });
    let RefOr::T(response) = response else { return };
    if !response.description.is_empty() {
        response.description.push_str("; ");
    }
    response.description.push_str(&format!("`{}`: {}", info.name, info.title));
    if let Some(RefOr::T(content)) = response.content.get_mut(PROBLEM_CONTENT_TYPE) {
        let value = serde_json::to_value(Problem::new(code, "")).ok();
        let example = ExampleBuilder::new().summary(info.title).value(value).build();
        content.examples.insert(info.name.to_owned(), RefOr::T(example));
    }
}
