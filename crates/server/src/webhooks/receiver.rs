//! The receiver of a queue, as a caller sets it: its address, its secrets, and what a masked secret means.

use crate::{access::Who, refusal::Refusal};
use punctual_domain::settings::{QueueSettings, Webhook};
use punctual_protocol::{Code, FieldError, Invalid};
use punctual_webhook::{checked_header, checked_secrets, checked_url};

/// Puts the stored secrets in place of masks, and checks the receiver. `stored` has the settings that are stored now.
pub(crate) fn checked(
    who: &Who,
    mut settings: QueueSettings,
    stored: Option<&QueueSettings>,
) -> Result<QueueSettings, Refusal> {
    let Some(webhook) = settings.webhook.as_deref_mut() else { return Ok(settings) };
    let stored = stored.and_then(|stored| stored.webhook.as_deref());
    let errors = faults(who, webhook, stored);
    if errors.is_empty() {
        return Ok(settings);
    }
    Err(Invalid { code: Code::RequestInvalid, errors }.into())
}

/// True if the stored settings must be known to understand these.
pub(crate) fn has_masks(settings: &QueueSettings) -> bool {
    settings.webhook.as_ref().is_some_and(|webhook| webhook.has_masks())
}

fn faults(who: &Who, webhook: &mut Webhook, stored: Option<&Webhook>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |pointer: &str, detail: String| {
        errors.push(FieldError::new(format!("/webhook{pointer}"), detail));
    };
    let url = checked_url(&webhook.url, webhook.allow_private);
    // A caller that may set the address must not send stored credentials to a host that did not get them before.
    let is_other_host = stored.is_some_and(|stored| !is_same_host(&webhook.url, &stored.url));
    for (name, _) in webhook.headers.iter().filter(|(_, value)| value.is_mask() && is_other_host) {
        refuse(&header_pointer(name), "must be given again: the address is of another host".to_owned());
    }
    for pointer in webhook.unmask(stored) {
        refuse(&pointer, "is the mask of a secret, and none is stored: give the secret itself".to_owned());
    }
    if let Err(why) = url {
        refuse("/url", why);
    }
    if let Some(secret) = webhook.secret.as_ref().filter(|secret| !secret.is_mask())
        && let Err(why) = checked_secrets(secret.reveal())
    {
        refuse("/secret", why);
    }
    for (name, value) in webhook.headers.iter().filter(|(_, value)| !value.is_mask()) {
        if let Err(why) = checked_header(name, value.reveal()) {
            refuse(&header_pointer(name), why);
        }
    }
    if webhook.allow_private && stored != Some(&*webhook) && !who.reaches_everything() {
        let detail = "is only for tokens that reach all namespaces and queues: requests would come from inside the network";
        refuse("/allow_private", detail.to_owned());
    }
    errors
}

fn header_pointer(name: &str) -> String {
    format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn is_same_host(one: &str, other: &str) -> bool {
    match (checked_url(one, true), checked_url(other, true)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::settings::Secret;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn set(url: &str, secret: Option<&str>, header: Option<&str>) -> QueueSettings {
        let headers = header.map(|value| ("authorization".to_owned(), Secret::new(value)));
        let webhook = Webhook {
            url: url.to_owned(),
            secret: secret.map(Secret::new),
            headers: headers.into_iter().collect(),
            ..Webhook::default()
        };
        QueueSettings { webhook: Some(Box::new(webhook)), ..QueueSettings::default() }
    }

    fn pointers(settings: QueueSettings, stored: Option<&QueueSettings>) -> Vec<String> {
        match checked(&Who::anyone(None), settings, stored) {
            Ok(_) => Vec::new(),
            Err(refusal) => refusal.into_problem().errors.into_iter().map(|error| error.pointer).collect(),
        }
    }

    #[test]
    fn each_fault_of_a_receiver_is_named() {
        let bad = set("http://127.0.0.1/", Some("secret"), Some("a\nb"));
        assert_eq!(
            pointers(bad, None),
            ["/webhook/url", "/webhook/secret", "/webhook/headers/authorization"]
        );
        assert_eq!(pointers(set("https://example.org/", Some(SECRET), Some("Bearer a")), None), [""; 0]);
    }

    #[test]
    fn a_mask_keeps_the_secret_of_the_same_host_alone() {
        let stored = set("https://example.org/", Some(SECRET), Some("Bearer a"));
        let masked = |url: &str| set(url, Some("***"), Some("***"));
        let kept = checked(&Who::anyone(None), masked("https://example.org/new"), Some(&stored)).unwrap();
        let kept = kept.webhook.unwrap();
        assert_eq!(
            (kept.secret.unwrap().reveal(), kept.headers["authorization"].reveal()),
            (SECRET, "Bearer a")
        );
        assert_eq!(
            pointers(masked("https://evil.example/"), Some(&stored)),
            ["/webhook/headers/authorization"]
        );
        assert_eq!(
            pointers(masked("https://example.org/"), None),
            ["/webhook/secret", "/webhook/headers/authorization"]
        );
    }
}
