//! Bulk operations by action: which role may begin which, and that no role may continue one that it could not
//! begin.

use super::{
    site::{AccessSite, post},
    table::ROLES,
};
use serde_json::{Value, json};

const CHANGERS: &[&str] = &["submitter", "operator", "admin"];
const OPERATORS: &[&str] = &["operator", "admin"];

/// What each action needs besides what every one needs: that tasks may be changed.
fn actions() -> [(Value, &'static [&'static str]); 9] {
    [
        (json!({"action": "cancel"}), CHANGERS),
        (json!({"action": "reschedule", "args": {"by_ms": 1_000}}), CHANGERS),
        (json!({"action": "set_priority", "args": {"priority": 2}}), CHANGERS),
        (json!({"action": "set_queue", "args": {"queue": "r"}}), CHANGERS),
        (json!({"action": "run_now"}), CHANGERS),
        (json!({"action": "bury"}), CHANGERS),
        (json!({"action": "redrive"}), OPERATORS),
        (json!({"action": "delete"}), OPERATORS),
        // It reads: a token that may change tasks may read them.
        (json!({"action": "export"}), CHANGERS),
    ]
}

fn asked(action: &Value) -> Value {
    let mut asked = action.clone();
    asked["filter"] = json!({"queue": "q"});
    asked
}

async fn walk(site: AccessSite) {
    for role in ROLES {
        let (_, token) = site.token(role, &["shop"], &["*"]).await;
        for (action, roles) in actions() {
            let what = format!("{role}: {action}");
            let may = roles.contains(&role);
            let begun = site.send(post("/v1/bulk", asked(&action)).within("shop").with(&token)).await;
            assert_eq!(begun.status, if may { 201 } else { 403 }, "{what}: {}", begun.text);
            // Another's, in the states in which each call is taken.
            let made = site.admin(post("/v1/bulk", asked(&action)).within("shop")).await.expect(201);
            let id = made["id"].as_i64().unwrap();
            for call in ["confirm", "pause", "resume", "stop"] {
                let path = format!("/v1/bulk/{id}/{call}");
                let answer = site.send(post(&path, json!({})).within("shop").with(&token)).await;
                assert_eq!(answer.status, if may { 200 } else { 403 }, "{what} {call}: {}", answer.text);
                if !may {
                    assert_eq!(answer.body["code"], "auth.denied", "{what} {call}");
                    site.admin(post(&path, json!({})).within("shop")).await.expect(200);
                }
            }
        }
    }
}

#[tokio::test]
async fn each_action_is_for_its_roles_and_so_is_all_that_is_done_with_it_on_sqlite() {
    walk(AccessSite::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_is_for_its_roles_and_so_is_all_that_is_done_with_it_on_mysql_and_redis() {
    walk(AccessSite::mysql().await).await;
}
