//! The private servers of tests, and databases there that have the schema already.

use punctual_store::MysqlStore;

pub use punctual_test_servers::*;

/// A new database of the shared MariaDB with the schema as migrations leave it. It is copied from the first that was migrated:
/// the hundred statements of all migrations, for the thousand databases of the tests, were a twentieth of what the tests take.
/// Whoever tests migrations takes [`MariaDb::fresh_database`].
pub async fn migrated_database() -> String {
    static SCHEMA: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    let server = mariadb().await;
    let migrated = async || {
        let url = server.fresh_database().await;
        MysqlStore::migrate_alone(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        url
    };
    // Its programs do not read the databases of the other kind.
    if is_mysql() {
        return migrated().await;
    }
    let first = async || {
        let url = migrated().await;
        server.dump(url.rsplit('/').next().expect("an address ends with a name")).await
    };
    server.restored(SCHEMA.get_or_init(first).await).await
}
