//! Namespaces: what each holds and may hold, and the deletion of one.

use super::settings::{limit_fields, limits_of, wanted_limits};
use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::Form,
    layout::under,
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{Namespace, NamespaceState, Page as Items};
use serde_json::json;

const MANAGE: &str = "manage_namespaces";

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/namespaces", show: |context| Box::pin(list(context)), act: None },
        Page {
            path: "/console/namespaces/{namespace}",
            show: |context| Box::pin(show(context)),
            act: Some(|context, form| Box::pin(set(context, form))),
        },
        Page {
            path: "/console/namespaces/{namespace}/delete",
            show: |context| Box::pin(ask_delete(context, None)),
            act: Some(|context, form| Box::pin(delete(context, form))),
        },
    ]
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", "100")];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let page: Items<Namespace> = context.api.get_with("/v1/namespaces", &query).await?;
    Ok(View::new(
        "Namespaces",
        "Tenants: what each holds and its limits. The other pages show one namespace at a time.",
    )
    .live("namespaces", table(context, &page)))
}

fn name(namespace: &Namespace) -> &str {
    namespace.limits.namespace.as_deref().unwrap_or_default()
}

fn address(context: &Context, name: &str) -> String {
    context.href(&under("/console/namespaces", name), &[])
}

fn table(context: &Context, page: &Items<Namespace>) -> Markup {
    if page.items.is_empty() {
        return parts::empty(
            "There are no namespaces with tasks or settings.",
            &html! { "A namespace exists as soon as a task is inserted with the header " code { "Punctual-Namespace" } "." },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Namespaces" { table.cards #namespaces {
            caption.hidden { "Namespaces" }
            thead { tr { th scope="col" { "Namespace" } th scope="col" { "State" } th.num scope="col" { "Tasks" } th.num scope="col" { "Waiting" } th.num scope="col" { "In flight" } th scope="col" { "Payloads that wait" } th scope="col" { "Limits" } th scope="col" { span.hidden { "Look at it" } } } }
            tbody data-rows {
                @for namespace in &page.items { (row(context, namespace)) }
                (parts::pager(context, page.next_cursor.as_deref(), 8, page.items.len()))
            }
        } }
    }
}

fn row(context: &Context, this_namespace: &Namespace) -> Markup {
    html! {
        tr data-row data-key=(name(this_namespace)) data-namespace=(name(this_namespace)) {
            th scope="row" { a href=(address(context, name(this_namespace))) { (name(this_namespace)) } @if let Some(text) = &this_namespace.description { br; span.dim { (parts::short(text, 200)) } } }
            td data-label="State" { (state(this_namespace)) }
            td.num data-label="Tasks" { (parts::number_or_dash(this_namespace.usage.map(|usage| usage.tasks))) }
            td.num data-label="Waiting" { (parts::number_or_dash(this_namespace.usage.map(|usage| usage.waiting))) @if let Some(most) = this_namespace.limits.max_waiting { span.dim { " / " (texts::number(most)) } } }
            td.num data-label="In flight" { (parts::number_or_dash(this_namespace.usage.map(|usage| usage.in_flight))) @if let Some(most) = this_namespace.limits.concurrency { span.dim { " / " (texts::number(most)) } } }
            td data-label="Payloads that wait" { @match this_namespace.usage { Some(usage) => (texts::bytes(usage.payload_bytes)), None => (parts::dash()) } }
            td data-label="Limits" { @let said = limits_of(&this_namespace.limits); @if said.is_empty() { (parts::dash()) } @else { (said.join(" · ")) } }
            td { a href=(context.href_in(name(this_namespace), "/console/queues", &[])) { "Queues" } " " a href=(context.href_in(name(this_namespace), "/console/tasks", &[])) { "Tasks" } }
        }
    }
}

fn state(namespace: &Namespace) -> Markup {
    match namespace.state {
        NamespaceState::Active => parts::badge("active", "good"),
        NamespaceState::Deleting => html! { (parts::badge("being deleted", "bad"))
        @if let Some(left) = namespace.deletion.as_ref().and_then(|deletion| deletion.left) { " " (texts::number(left)) " left" } },
        NamespaceState::Absent => parts::badge("empty", "off"),
    }
}

fn call(context: &Context) -> String {
    format!("/v1/namespaces/{}", segment(context.param("namespace")))
}

async fn show(context: &Context) -> Result<View, Fault> {
    let namespace: Namespace = context.api.get(&call(context)).await?;
    let form = Form::of(limit_fields(&namespace.limits, namespace.description.as_deref()));
    Ok(view(context, &namespace, &form, None))
}

fn view(context: &Context, namespace: &Namespace, form: &Form, fault: Option<&Fault>) -> View {
    let wanted = context.param("namespace");
    let delete = context.href(&format!("{}/delete", under("/console/namespaces", wanted)), &[]);
    View::new(format!("Namespace {wanted}"), "What it holds, and its limits. An empty field means no limit.")
        .under("Namespaces", context.href("/console/namespaces", &[]))
        .actions(html! {
            a.button href=(context.href_in(wanted, "/console/queues", &[])) { "Its queues" }
            a.button href=(context.href_in(wanted, "/console/tasks", &[])) { "Its tasks" }
            (parts::button(context, MANAGE, &delete, "Delete", "danger"))
        })
        .live("usage", usage(context, namespace))
        .part(super::settings::limits_form(context, form, namespace.limits.revision, MANAGE, true, fault))
}

fn usage(context: &Context, namespace: &Namespace) -> Markup {
    html! {
        @if let Some(deletion) = &namespace.deletion {
            div.note.bad { strong { "It is being deleted" } ", asked for by " (deletion.by) " " (parts::ago(context, deletion.since_ms)) ": "
                @match deletion.left { Some(left) => { (texts::number(left)) " tasks are left" }, None => "how much is left is not known now" } "." }
        }
        @match &namespace.usage {
            None => div.note.warn { "Its counts cannot be read now: a database does not answer." },
            Some(usage) => div.figures {
                (parts::figure("State", &state(namespace), &html! {}, ""))
                (parts::figure("Tasks", &parts::number(usage.tasks), &html! { "in all states" }, ""))
                (parts::figure("Waiting", &parts::number(usage.waiting), &html! { "not handed over yet" }, ""))
                (parts::figure("In flight", &parts::number(usage.in_flight), &html! { "with executors" }, ""))
                (parts::figure("Payloads that wait", &html! { (texts::bytes(usage.payload_bytes)) }, &html! {}, ""))
            },
        }
    }
}

async fn set(context: &Context, form: &Form) -> Result<Done, Fault> {
    let revision = form.raw("revision").to_owned();
    let sent = match wanted_limits(form, true) {
        Ok(body) => {
            context
                .api
                .send(Method::PUT, &call(context), Some(body.to_string()), Some(&format!("\"{revision}\"")))
                .await
        }
        Err(fault) => Err(fault),
    };
    let wanted = context.param("namespace");
    match sent {
        Ok(_) => Ok(Done::to(address(context, wanted), format!("The limits of {wanted} are saved."))),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => {
            let namespace: Namespace = context.api.get(&call(context)).await?;
            Ok(Done::Again(Box::new(view(context, &namespace, form, Some(&fault)))))
        }
    }
}

async fn ask_delete(context: &Context, fault: Option<&Fault>) -> Result<View, Fault> {
    let wanted = context.param("namespace");
    let namespace: Namespace = context.api.get(&call(context)).await?;
    let says = html! {
        p { "Everything in " strong { (wanted) } " is deleted: "
            @match namespace.usage { Some(usage) => strong { (texts::count(u64::try_from(usage.tasks).unwrap_or(0), "task", "tasks")) }, None => "its tasks" }
            ", with histories and payloads, its queues' settings, schedules and workflows. It takes nothing new from now on." }
        p { "Running tasks finish first. This cannot be stopped or undone." }
    };
    let fields = parts::field(
        "name_again",
        "Its name, once more",
        Some("To prevent an accidental deletion."),
        &parts::input("name_again", "", wanted),
        None,
    );
    let title = format!("Delete the namespace {wanted}?");
    Ok(Confirm {
        title: &title,
        says,
        fields,
        does: "Delete the namespace",
        permission: MANAGE,
        is_dangerous: true,
        back: address(context, wanted),
    }
    .with(context, fault))
}

async fn delete(context: &Context, form: &Form) -> Result<Done, Fault> {
    let wanted = context.param("namespace");
    let query = json!({"confirm": form.get("name_again").unwrap_or_default()});
    let path = crate::api::with_query(&call(context), &query)?;
    match context.api.send(Method::DELETE, &path, None, None).await {
        Ok(_) => Ok(Done::to(address(context, wanted), format!("{wanted} is being deleted."))),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(ask_delete(context, Some(&fault)).await?))),
    }
}
