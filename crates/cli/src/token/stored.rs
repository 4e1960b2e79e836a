//! Tokens on the store itself: a user that may open it may do everything anyway. Each change is audited as those of the API are.

use crate::{
    audited::{self, Audited, audited, operator},
    backends::{self, OpenStore},
    clock::SystemClock,
    config::{SettingArgs, Settings},
};
use anyhow::{Context as _, Result, bail};
use punctual_contract::{Clock as _, access::Token};
use punctual_domain::{access::TokenId, time::Millis};
use punctual_engine::access::tokens::{self, Created, Issued, NOT_THE_FIRST, NewToken, Turned};
use punctual_protocol::{AccessToken, CreateToken, Invalid};
use punctual_server::access_tokens;

async fn on_store<T>(settings: &SettingArgs, work: impl AsyncFnOnce(&OpenStore) -> Result<T>) -> Result<T> {
    let settings = Settings::from_layers(&settings.layers()?)?;
    let store = backends::open_store(&settings.place).await.with_context(|| {
        "the store cannot be opened; if a server runs on it, go through its API: --server http://127.0.0.1:7450"
    })?;
    audited::note_migrations(store.store(), &store.migrated(), "token").await?;
    let done = work(&store).await;
    store.close().await?;
    done
}

/// Creates a token. The flag is true for the first one: before it, callers needed none. A secret in the settings
/// counts as a token.
pub(super) async fn create(settings: &SettingArgs, asked: &CreateToken) -> Result<(AccessToken, bool)> {
    let grant = access_tokens::grant(asked).map_err(Invalid::from)?;
    let needs_none = Settings::from_layers(&settings.layers()?)?.engine.admin_token.is_none();
    on_store(settings, async |store| {
        let is_first = needs_none && store.store().tokens().await?.all.is_empty();
        let expires_at = asked.expires_ms().map(Millis);
        let new = NewToken { name: asked.name.clone(), grant, expires_at, grace_ms: asked.grace_ms };
        if asked.grace_ms.is_some() && !needs_none {
            bail!("--grace {NOT_THE_FIRST} (auth.admin_token is one)");
        }
        let work = async {
            match tokens::create(store.store(), new, &operator(), SystemClock.now()).await? {
                Created::Done(issued) => Ok(done_with(None, *issued)),
                Created::NotTheFirst => bail!("--grace {NOT_THE_FIRST}"),
            }
        };
        Ok((audited(store.store(), "create_token", "token create", work).await?, is_first))
    })
    .await
}

pub(super) async fn list(settings: &SettingArgs) -> Result<Vec<AccessToken>> {
    on_store(settings, async |store| {
        let mut all = store.store().tokens().await?.all;
        all.sort_by_key(|token| std::cmp::Reverse((token.created_at, token.id.clone())));
        let now = SystemClock.now();
        Ok(all.iter().map(|token| access_tokens::shown(token, now)).collect())
    })
    .await
}

pub(super) async fn rotate(settings: &SettingArgs, id: &str, overlap_ms: i64) -> Result<AccessToken> {
    let id = TokenId::new(id)?;
    on_store(settings, async |store| {
        let work = async {
            match tokens::rotate(store.store(), &id, overlap_ms, SystemClock.now()).await? {
                Turned::Done { before, after } => Ok(done_with(shown(&before), after)),
                Turned::NotFound => bail!("there is no token {id}"),
                Turned::Revoked(_) => bail!("token {id} was revoked; make another one"),
            }
        };
        audited(store.store(), "rotate_token", format!("token rotate {id}"), work).await
    })
    .await
}

pub(super) async fn revoke(settings: &SettingArgs, id: &str) -> Result<AccessToken> {
    let id = TokenId::new(id)?;
    on_store(settings, async |store| {
        let work = async {
            match tokens::revoke(store.store(), &id, &operator(), SystemClock.now()).await? {
                Turned::Done { before, after } => {
                    let value = access_tokens::shown(&after, SystemClock.now());
                    Ok(Audited { value, before: shown(&before), after: shown(&after) })
                }
                Turned::NotFound | Turned::Revoked(_) => bail!("there is no token {id}"),
            }
        };
        audited(store.store(), "revoke_token", format!("token revoke {id}"), work).await
    })
    .await
}

/// The token in the audit.
fn shown(token: &Token) -> Option<String> {
    serde_json::to_string(&access_tokens::shown(token, SystemClock.now())).ok()
}

fn done_with(before: Option<String>, issued: Issued) -> Audited<AccessToken> {
    let after = shown(&issued.token);
    Audited { value: access_tokens::revealed(issued, SystemClock.now()), before, after }
}
