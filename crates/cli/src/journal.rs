//! Opens the journal of an engine, for outcomes whose database does not answer. Does not decide what is stored there.

use crate::config::JournalPlace;
use anyhow::{Context as _, Result};
use punctual_contract::ScheduleStore;
use punctual_engine::Engine;
use punctual_store::{FileJournal, JournalFound, JournalOptions};
use std::sync::Arc;

/// An engine that cannot write to the configured place does not start; without a configured place, outcomes are refused while
/// their database does not answer, as without a journal.
pub(crate) async fn keep_outcomes(
    engine: &Engine,
    store: &dyn ScheduleStore,
    place: &JournalPlace,
) -> Result<()> {
    let secret = engine.identity_secret(store).await.context("the secret of the cluster")?;
    let JournalPlace { directory, bytes_max, is_alone, .. } = place.clone();
    let options = JournalOptions { directory, bytes_max, owner: secret.journal_owner(), is_alone };
    let opened = tokio::task::spawn_blocking(move || FileJournal::open(&options)).await?;
    match opened {
        Ok((journal, found)) => {
            if found != JournalFound::default() {
                tracing::info!(
                    outcomes = found.records,
                    torn_bytes = found.torn_bytes,
                    damaged_bytes = found.damaged_bytes,
                    of_engines_gone = found.taken_over,
                    "outcomes wait in the journal, and are applied now"
                );
            }
            engine.keep_outcomes_in(Arc::new(journal));
            Ok(())
        }
        Err(error) if place.is_named => Err(error).with_context(|| {
            let directory = place.directory.display();
            format!(
                "journal.directory = \"{directory}\" cannot be used; name one that can be written, or \"off\""
            )
        }),
        Err(error) => {
            tracing::warn!(
                %error, directory = %place.directory.display(),
                "outcomes are refused while their database does not answer: there is no place for their journal (journal.directory)"
            );
            Ok(())
        }
    }
}
