//! Tokens: who has which, made, rotated and revoked. A secret is shown on the one page that answers the form, and nowhere again.

use crate::{
    api::segment,
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::{self, Form},
    parts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{AccessToken, Page as Items, Role, TokenState};
use serde_json::{Map, Value, json};

const COLUMNS: usize = 8;
const MANAGE: &str = "manage_access";

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page { path: "/console/tokens", show: |context| Box::pin(list(context)), act: None },
        Page {
            path: "/console/tokens/new",
            show: |context| Box::pin(ask_new(context)),
            act: Some(|context, form| Box::pin(create(context, form))),
        },
        Page {
            path: "/console/tokens/{id}/rotate",
            show: |context| Box::pin(ask_rotate(context)),
            act: Some(|context, form| Box::pin(rotate(context, form))),
        },
        Page {
            path: "/console/tokens/{id}/revoke",
            show: |context| Box::pin(ask_revoke(context)),
            act: Some(|context, _| Box::pin(revoke(context))),
        },
    ]
}

fn home(context: &Context) -> String {
    context.href("/console/tokens", &[])
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", "200")];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let page: Items<AccessToken> = context.api.get_with("/v1/tokens", &query).await?;
    Ok(View::new("Tokens", "Who may call, with which roles and scopes, and when each token was last used. The secret is shown once, on creation.")
        .actions(parts::link_button(context, MANAGE, &context.href("/console/tokens/new", &[]), "New token", "primary"))
        .part(table(context, &page)))
}

fn table(context: &Context, page: &Items<AccessToken>) -> Markup {
    if page.items.is_empty() && context.query("cursor").is_none() {
        return parts::empty(
            "There are no tokens.",
            &html! { "Anyone who reaches this server may do everything; it listens on this machine only. With the first token, every request needs a token: create one for yourself first." },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Tokens" { table.cards #tokens {
            caption.hidden { "Tokens" }
            thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Roles" } th scope="col" { "Reach" } th scope="col" { "Last used" } th scope="col" { "Made" } th scope="col" { "Expires" } th scope="col" { span.hidden { "Do" } } } }
            tbody data-rows { @for token in &page.items { (row(context, token)) } (parts::pager(context, page.next_cursor.as_deref(), COLUMNS, page.items.len())) }
        } }
    }
}

fn row(context: &Context, access_token: &AccessToken) -> Markup {
    let to =
        |action: &str| context.href(&format!("/console/tokens/{}/{action}", segment(&access_token.id)), &[]);
    let (word, tone) = match access_token.state {
        TokenState::Active => ("active", "good"),
        TokenState::Expired => ("expired", "off"),
        TokenState::Revoked => ("revoked", "off"),
    };
    html! {
        tr data-row data-token=(access_token.id) {
            th scope="row" { (access_token.name) br; code.dim { (access_token.id) } }
            td data-label="State" { (parts::badge(word, tone)) @if let Some(at) = access_token.previous_until_ms { br; span.dim { "old secret good " (parts::ago(context, at)) } } }
            td data-label="Roles" { @for role in &access_token.roles { (parts::badge(role.word(), "wait")) " " } }
            td data-label="Reach" { "namespaces " code { (access_token.namespaces.join(", ")) } br; "queues " code { (access_token.queues.join(", ")) } }
            td data-label="Last used" { @match access_token.used_at_ms { Some(at) => (parts::ago(context, at)), None => span.dim { "never" } } }
            td data-label="Made" { (parts::ago(context, access_token.created_at_ms)) br; span.dim { "by " (access_token.created_by) } }
            td data-label="Expires" { @match access_token.expires_at_ms { Some(at) => (parts::ago(context, at)), None => span.dim { "never" } } }
            td.small { @if access_token.state == TokenState::Active { (parts::button(context, MANAGE, &to("rotate"), "Rotate", "")) " " (parts::button(context, MANAGE, &to("revoke"), "Revoke", "danger")) } }
        }
    }
}

async fn ask_new(context: &Context) -> Result<View, Fault> {
    Ok(new_view(context, &Form::default(), None))
}

fn new_view(context: &Context, form: &Form, fault: Option<&Fault>) -> View {
    let lacks = context.lacks(MANAGE);
    View::new("New token", "A token cannot have more rights than yours. The secret is shown once, on the next page.").under("Tokens", home(context)).part(html! {
        form.settings #token method="post" action=(context.here()) {
            @if let Some(fault) = fault { (parts::faults(fault)) }
            input type="hidden" name=(form::TOKEN) value=(context.form_token);
            @if !context.me.needs_token { p.note.warn { strong { "No token is required yet. " } "With the first token, every request needs a token, this console included, unless the token has a grace period. Create an admin token first, and keep it." } }
            (parts::field("name", "Name", Some("Shown in lists, histories and the audit."), &parts::input("name", form.raw("name"), "billing"), None))
            fieldset { legend { "Roles" } @for (role, means) in Role::ALL.map(|role| (role.word(), role.means())) {
                div { label.check { input type="checkbox" name="role" value=(role) checked[form.all("role").any(|text| text == role)]; strong { (role) } span.dim { (means) } } }
            } }
            div.fields {
                (parts::field("namespaces", "Namespaces", Some("Separated by commas. A trailing * matches any suffix."), &parts::input("namespaces", form.raw("namespaces"), "*"), None))
                (parts::field("queues", "Queues", Some("The same."), &parts::input("queues", form.raw("queues"), "*"), None))
                (parts::field("expires", "Expires after", Some("Such as 90 d; empty: never."), &parts::input("expires", form.raw("expires"), "never"), None))
                @if !context.me.needs_token { (parts::field("grace", "Required after", Some("For the first token: how long requests without a token are still accepted. Such as 2 h, at most 30 d. Empty: not at all."), &parts::input("grace", form.raw("grace"), "at once"), None)) }
            }
            div.buttons {
                @match &lacks { None => button #make.primary type="submit" { "Make it" }, Some(why) => (parts::dead_button("Make it", why)) }
                a.button href=(home(context)) { "Leave it" }
            }
        }
    })
}

fn wanted(context: &Context, form: &Form) -> Result<Value, Fault> {
    let patterns = |name: &str| -> Vec<String> {
        form.raw(name).split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    };
    let mut body = Map::from_iter([
        ("name".to_owned(), json!(form.get("name").unwrap_or_default())),
        ("roles".to_owned(), json!(form.all("role").collect::<Vec<_>>())),
    ]);
    for name in ["namespaces", "queues"] {
        let patterns = patterns(name);
        if !patterns.is_empty() {
            body.insert(name.to_owned(), json!(patterns));
        }
    }
    if let Some(span) = form.span("expires", "Expires after")? {
        body.insert("expires_at_ms".to_owned(), json!(context.now_ms.saturating_add(span)));
    }
    if let Some(span) = form.span("grace", "Required after")? {
        body.insert("grace_ms".to_owned(), json!(span));
    }
    Ok(Value::Object(body))
}

async fn create(context: &Context, form: &Form) -> Result<Done, Fault> {
    let sent = match wanted(context, form) {
        Ok(body) => context.api.post("/v1/tokens", &body).await,
        Err(fault) => Err(fault),
    };
    match sent {
        Ok(answer) => Ok(Done::Show(Box::new(revealed(context, &answer.read()?)))),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(new_view(context, form, Some(&fault))))),
    }
}

fn revealed(context: &Context, token: &AccessToken) -> View {
    let secret = token.token.as_ref().map_or("", |token| token.0.as_str());
    View::new(format!("The token of {}", token.name), "Copy it now. It is shown only once.").under("Tokens", home(context)).part(html! {
        section.panel {
            p.secret #secret { code { (secret) } " " (parts::copy(secret, "Copy the token")) }
            @if let Some(at) = token.required_at_ms { p.note.warn { "Requests without a token are accepted until " (parts::time(context, at)) ". Give each worker, client and scraper one before then." } }
            p.dim { "It is sent as " code { "Authorization: Bearer …" } ", or given to the command line as " code { "PUNCTUAL_TOKEN" } "." }
            p { a.button.primary href=(home(context)) { "I have it" } }
        }
    })
}

async fn of_this(context: &Context) -> Result<AccessToken, Fault> {
    let id = context.param("id");
    let mut cursor = None;
    loop {
        let mut query = vec![("limit", "1000")];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page: Items<AccessToken> = context.api.get_with("/v1/tokens", &query).await?;
        if let Some(found) = page.items.into_iter().find(|token| token.id == id) {
            return Ok(found);
        }
        cursor = Some(page.next_cursor.ok_or(Fault::NotFound)?);
    }
}

async fn ask_rotate(context: &Context) -> Result<View, Fault> {
    let token = of_this(context).await?;
    let title = format!("Rotate the token {}?", token.name);
    let says = html! { p { "The token gets a new secret, shown once. The old secret stays valid for a grace period." } };
    let fields = parts::field(
        "overlap",
        "The old one is good for",
        Some("0 for not at all."),
        &parts::input("overlap", "1 h", "1 h"),
        None,
    );
    Ok(Confirm {
        title: &title,
        says,
        fields,
        does: "Rotate it",
        permission: MANAGE,
        is_dangerous: false,
        back: home(context),
    }
    .view(context))
}

async fn rotate(context: &Context, form: &Form) -> Result<Done, Fault> {
    let overlap = form.span("overlap", "The old one is good for")?;
    let body = overlap.map_or_else(|| json!({}), |overlap| json!({"overlap_ms": overlap}));
    let answer =
        context.api.post(&format!("/v1/tokens/{}/rotate", segment(context.param("id"))), &body).await?;
    Ok(Done::Show(Box::new(revealed(context, &answer.read()?))))
}

async fn ask_revoke(context: &Context) -> Result<View, Fault> {
    let token = of_this(context).await?;
    let title = format!("Revoke the token {}?", token.name);
    let says = html! {
        p { "Whoever uses " strong { (token.name) } " is refused within a second, at every engine." }
        p { "It was last used " @match token.used_at_ms { Some(at) => (parts::ago(context, at)), None => "never" } "." }
        @if context.me.token_id.as_deref() == Some(&*token.id) { p.note.warn { "This session uses the token. You will be signed out." } }
    };
    Ok(Confirm {
        title: &title,
        says,
        fields: html! {},
        does: "Revoke it",
        permission: MANAGE,
        is_dangerous: true,
        back: home(context),
    }
    .view(context))
}

async fn revoke(context: &Context) -> Result<Done, Fault> {
    let id = context.param("id");
    context.api.send(Method::DELETE, &format!("/v1/tokens/{}", segment(id)), None, None).await?;
    Ok(Done::to(home(context), "It is revoked."))
}
