//! The one list of error codes: server, sdk and documentation read it. A code is never renamed and never reused.

/// The description of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeInfo {
    pub code: Code,
    /// The stable word, as in `code` of a problem document.
    pub name: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Title of the problem; the same for every occurrence.
    pub title: &'static str,
    /// The condition of the code, and the advice for the caller.
    pub doc: &'static str,
}

macro_rules! codes {
    ($($variant:ident $name:literal $status:literal $title:literal $doc:literal)+) => {
        /// A stable error code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $doc] $variant),+ }

        /// Every code, in the order of the documentation.
        pub const CODES: &[CodeInfo] =
            &[$(CodeInfo { code: Code::$variant, name: $name, status: $status, title: $title, doc: $doc }),+];

        impl Code {
            /// The description of the code.
            pub const fn info(self) -> CodeInfo {
                match self {
                    $(Self::$variant => CodeInfo { code: self, name: $name, status: $status, title: $title, doc: $doc }),+
                }
            }
        }
    };
}

codes! {
    TaskNotFound "task.not_found" 404 "No such task"
        "The namespace has no task with this ref or id. A ref works for ever, so it was mistyped, is of another namespace, or its task's retention ended."
    TaskVersionSuperseded "task.version_superseded" 409 "A newer version of this task exists"
        "The task_id or key is known with a higher task_version. Nothing was inserted; `existing` shows the newer task. Send a higher version, or take the existing one as the answer."
    TaskExists "task.exists" 409 "A task of this id or key exists"
        "The insert said `on_conflict: fail` and a task of this task_id or key and task_version exists, or the task_id belongs to a task with another key. Nothing was inserted; `existing` shows that task."
    TaskAlreadyFired "task.already_fired" 409 "The task has fired"
        "The change came after the task fired or ended: the task does run, or did. To withdraw one that waits for an executor, or to ask a running one to stop, cancel with `stop_if_fired`."
    TaskNotDead "task.not_dead" 409 "The task is not dead"
        "Only a dead task can be redriven. A task that waits can be run now or rescheduled; one that was cancelled can be inserted again; one that succeeded, with a higher version."
    TaskNotFinished "task.not_finished" 409 "The task cannot be deleted"
        "Only a task that has succeeded, or is dead, cancelled or stopped, can be deleted; one that waits can be cancelled first. Archives are kept whole."
    PreconditionFailed "precondition.failed" 412 "It has changed since it was read"
        "`If-Match` names another state than the present one. Read it again, decide again, send the new ETag."
    RequestMalformedHttp "request.malformed_http" 400 "The request is not well-formed HTTP"
        "Not a request of HTTP, or its head is ambiguous: an unreadable line or header, no `Host` or several, or `Content-Length` beside `Transfer-Encoding`. Nothing was done, and the connection is ended. Look at what is between client and server."
    RequestHeadTooLarge "request.head_too_large" 431 "The head of the request is too large"
        "Address and headers are over 64 KiB together, or over 100 headers. Nothing was done, and the connection is ended. Send less, or use the body."
    RequestMalformedJson "request.malformed_json" 400 "The body is not JSON"
        "The body could not be read as one JSON document; the detail names the line and column."
    RequestUnknownField "request.unknown_field" 400 "The request has a field that is not known"
        "Unknown fields are refused, so that a misspelt one is not silently ignored; the pointer names it and the detail lists the known ones."
    RequestInvalid "request.invalid" 400 "The request is not valid"
        "A field is missing, of the wrong type or out of its range; `errors` names every such field with a JSON pointer. Sending the same request again cannot succeed."
    RequestTooLarge "request.too_large" 413 "The request is too large"
        "The body or one payload is larger than the server takes (16 MiB for a body and 1 MiB for a payload or result, unless set; with `payloads.url` 22 MiB and 16 MiB). Split the batch, or keep the payload elsewhere and send its key."
    RequestUnknownRoute "request.unknown_route" 404 "No such address"
        "The path is not part of the interface; /openapi.json lists all that are."
    RequestMethodNotAllowed "request.method_not_allowed" 405 "The address does not take this method"
        "The path exists with other methods; the `Allow` header lists them."
    RequestUnsupportedMediaType "request.unsupported_media_type" 415 "The body is not declared as JSON"
        "Bodies are JSON, and are sent as they are: send `Content-Type: application/json`, and no `Content-Encoding`."
    RequestTimeout "request.timeout" 408 "The request took too long to arrive"
        "The body did not arrive in time. Nothing was done; send it again."
    AuthRequired "auth.required" 401 "A token is required"
        "The request has no `Authorization: Bearer <token>`, or one that is unknown, expired or revoked. `punctual token create` on the store itself makes the first."
    AuthDenied "auth.denied" 403 "The token does not allow this"
        "The token does not reach this namespace, queue or call, or would give away more than it has; the detail says which. What a token may not see is answered as if it did not exist."
    AuthOriginRefused "auth.origin_refused" 403 "The request does not come from this machine"
        "While no token exists, the server answers only requests whose `Host` is localhost or a loopback address, and which no page of another site has sent (`Origin`, `Sec-Fetch-Site`). Nothing was done. Call it as http://localhost:7450 or http://127.0.0.1:7450, let a proxy on the machine send such a `Host`, or create a token."
    AuthSlowed "auth.slowed" 429 "Too many bad tokens from this address"
        "More than ten bad tokens came from this address within a minute. Good ones are taken; send again after `Retry-After`."
    TokenNotFound "token.not_found" 404 "No such token"
        "There is no token of this id, or it reaches more than the token that asks."
    TokenRevoked "token.revoked" 409 "The token is revoked"
        "A revoked token is so for good, and gets no new secret. Make another one."
    IdempotencyKeyReused "idempotency.key_reused" 422 "The idempotency key was used for another request"
        "The key came before with a different body or address. Use a new key for a new request."
    IdempotencyInProgress "idempotency.in_progress" 409 "The first request with this key is still being worked on"
        "A request with the same key has not been answered yet. Wait and send again: the answer will then be the first one's."
    QueueNotFound "queue.not_found" 404 "No such queue"
        "The namespace has no queue of this name, and the call does not create one."
    NamespaceNotFound "namespace.not_found" 404 "No such namespace"
        "Nothing is set for a namespace of this name, and it holds nothing; or namespaces must be made before they are used (`namespaces.explicit`). Make it with PUT /v1/namespaces/{namespace}, or correct the name."
    NamespaceDeleting "namespace.deleting" 409 "The namespace is being deleted"
        "Until the deletion is complete, the namespace accepts no tasks, gives none to executors, and its settings cannot be changed. Nothing was done. GET /v1/namespaces/{namespace} says how far it is; then the name can be used again."
    ExecutorNotFound "executor.not_found" 404 "No such executor"
        "The namespace has no executor of this name: it never called, ended in order, or fell silent over a day ago."
    ScheduleNotFound "schedule.not_found" 404 "No such schedule"
        "The namespace has no schedule of this name, or it makes tasks for a queue that the token does not reach."
    ScheduleContended "schedule.contended" 503 "The schedule is being changed by others"
        "Others changed the schedule again and again while this change was tried. Look at it, and send the change again after `Retry-After`."
    WorkflowNotFound "workflow.not_found" 404 "No such workflow"
        "The namespace has no workflow of this reference, or none any more, or it has tasks for a queue that the token does not reach."
    WorkflowNodeNotFound "workflow.node_not_found" 404 "The workflow has no such node"
        "No node of the workflow has this name; GET /v1/workflows/{workflow} lists them."
    WorkflowWrongState "workflow.wrong_state" 409 "The workflow does not stand so that this could be done"
        "The detail has its state: only one that is not over can be cancelled, only one that has failed or was cancelled can be retried, and one that was undone cannot be continued. Run a copy of it instead."
    WorkflowContended "workflow.contended" 503 "The workflow is being moved on by others"
        "Others moved the workflow on again and again while this change was tried. Look at it, and send the change again after `Retry-After`."
    ExpressionBudget "expression.budget" 400 "An expression costs too much"
        "An expression (`$expr`, `when`, `for_each`) takes over 50,000 steps or makes over 1 MiB of values; the detail names the expression, the place and the bound. The same request cannot succeed. Use shorter lists, not nested."
    ExpressionBusy "expression.busy" 503 "Too many expressions wait to be evaluated"
        "As many requests wait for expressions as may wait. Nothing was done; send it again after `Retry-After`."
    BulkNotFound "bulk.not_found" 404 "No such bulk operation"
        "The namespace has no bulk operation with this id, or it is about a queue that the token does not reach, or it is forgotten."
    BulkWrongState "bulk.wrong_state" 409 "The bulk operation is in another state"
        "What has not begun, or has ended, cannot be paused or resumed; what is done cannot be stopped; only what is done can be repeated. The detail has its state."
    BulkPreviewExpired "bulk.preview_expired" 409 "The preview is too old"
        "A preview is good for an hour: by now other tasks may match than it has counted. Make another, and confirm that one."
    BulkContended "bulk.contended" 503 "The bulk operation is being changed by others"
        "Others changed the operation again and again while this change was tried. Look at it, and send the change again after `Retry-After`."
    QueueFull "queue.full" 429 "Too many tasks wait"
        "As many tasks wait in the queue, in the namespace or in all as `max_waiting` allows; the detail says which. What replaces a waiting task, or exists already, is not refused. Send it again after `Retry-After`, or raise the cap."
    QueueNotScanned "queue.not_scanned" 409 "The queue is not scanned"
        "The queue's `source` is `hot`: its tasks fire by themselves and there is nothing to start. Set `source` to `store` first, or name another queue."
    QuotaInsertRate "quota.insert_rate" 429 "Tasks are inserted faster than is allowed"
        "More tasks are inserted than the `insert_rate` of the namespace, or of everything, lets in; the detail says which. Send it again after `Retry-After`, or raise the rate. Each of several engines lets in its share."
    QuotaPayloadBytes "quota.payload_bytes" 429 "The payloads of waiting tasks are too large together"
        "With this payload, waiting tasks would have more bytes than the `max_payload_bytes` of the namespace, or of everything, allows; the detail says which. What exists already, or is replaced by no more, is not refused. Send it again after `Retry-After`, send less, or raise the quota."
    StoreUnavailable "store.unavailable" 503 "The store cannot be reached"
        "The store refused or could not be reached. Nothing was done; send it again after `Retry-After`."
    StoreOutcomeUnknown "store.outcome_unknown" 503 "It is not known whether the request took effect"
        "The store failed after the request was given to it, so the request may have taken effect. Look before you repeat it, or send it again with the same task_id or Idempotency-Key; that is safe."
    TaskContended "task.contended" 503 "The task is being changed by others"
        "Others changed the task again and again while this change was tried. Nothing was done; send it again after `Retry-After`."
    Overload "overload" 429 "The server is busy"
        "More work waits than the server takes at once. Nothing was done; send again after `Retry-After`."
    ConnectionsFull "connections.full" 503 "Too many connections are open"
        "The server, or the caller's address, has as many connections as it may have, and none is idle. Nothing was done; connect again after `Retry-After`, reuse connections, or raise `http.connections_max` or `http.connections_per_address_max`."
    Stopping "stopping" 503 "The server is shutting down"
        "The server takes nothing new. Nothing was done; send again, to another instance or after `Retry-After`."
    NotFiring "not_firing" 503 "This server fires no tasks"
        "A part of the server that fires tasks is stuck or fails repeatedly; `parts` says which. Its partitions go to other servers. Send requests to another instance, and look at the alerts of this one."
    Internal "internal" 500 "Something went wrong inside the server"
        "A fault of the server, which is in its log. The request may have been carried out; sending it again with the same task_id or Idempotency-Key is safe."
}

impl Code {
    /// The stable word.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// HTTP status.
    pub const fn status(self) -> u16 {
        self.info().status
    }

    /// The code of a word; `None` for a newer server's code that this build does not know.
    pub fn from_name(name: &str) -> Option<Self> {
        CODES.iter().find(|info| info.name == name).map(|info| info.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back_to_their_code() {
        for info in CODES {
            assert_eq!(Code::from_name(info.name), Some(info.code), "{}", info.name);
            assert_eq!(info.code.info(), *info);
        }
    }

    #[test]
    fn every_code_is_an_error_with_a_title_and_a_paragraph() {
        for info in CODES {
            assert!((400..600).contains(&info.status), "{}", info.name);
            assert!(
                !info.title.ends_with('.') && info.doc.ends_with('.') && info.doc.len() > 40,
                "{}",
                info.name
            );
            assert!(
                info.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_'),
                "{}",
                info.name
            );
        }
    }
}
