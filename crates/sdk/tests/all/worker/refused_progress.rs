//! Progress that the server refuses.

use super::{Running, a_minute};
use crate::fake::Fake;
use punctual_sdk::{Task, protocol::OutcomeKind};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn progress_that_the_server_refuses_is_dropped_and_the_lease_continues() {
    let fake = Fake::new();
    let running =
        Running::start(fake.worker().lease(Duration::from_secs(3)).handle_any(|task: Task| async move {
            let deep = (0..200).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
            task.progress(&deep)?;
            a_minute().await;
            Ok(())
        }));
    fake.put("a", "k");
    fake.until(|kept| kept.beats.iter().filter(|(_, beat)| !beat.leases.is_empty()).count() > 3).await;
    assert!(
        fake.kept().beats.iter().all(|(_, beat)| beat.leases.iter().all(|lease| lease.progress.is_none()))
    );
    assert_eq!(fake.outcome("a").await.outcome, OutcomeKind::Succeeded);
    running.end().await;
}
