//! Whether this server can deliver a queue's tasks in the mode that a caller asks for.

use crate::{app::App, refusal::Refusal};
use punctual_contract::settings::StoredSetting;
use punctual_domain::settings::{QueueSettings, Setting};
use punctual_protocol::{Mode, PutQueue};

pub(super) fn of_queue(stored: &StoredSetting) -> Option<&QueueSettings> {
    match &stored.setting {
        Setting::Queue(settings) => Some(settings),
        Setting::Scope(_) => None,
    }
}

/// Published to where no reader reads them, tasks would lose their attempts and die.
pub(super) fn must_be_possible(app: &App, asked: &PutQueue) -> Result<(), Refusal> {
    if asked.mode == Some(Mode::Webhook) && app.options.webhooks.is_none() {
        return Err(Refusal::field("/mode", "cannot be `webhook` here: this server delivers no webhooks"));
    }
    if asked.mode != Some(Mode::Push) || app.engine.can_push() {
        return Ok(());
    }
    let detail = "cannot be `push` here: this server has no Redis, and its bus is its own memory, where no executor can \
                  subscribe. Leave it at `pull`, and let executors ask for tasks (POST /v1/queues/{queue}/lease, `punctual \
                  work`); or run it on a mysql store and Redis (store.url, hot.url), and let them subscribe there";
    Err(Refusal::field("/mode", detail))
}
