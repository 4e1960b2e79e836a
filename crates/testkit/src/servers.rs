//! The private servers of tests, and databases there that have the schema already.

use punctual_store::MysqlStore;

pub use punctual_test_servers::*;

/// A new database of the shared MariaDB with the fully migrated schema. It is copied from the first migrated
/// one: running all hundred statements of the migrations for the tests' thousand databases took a twentieth
/// of the tests' time. Tests of migrations use [`MariaDb::fresh_database`].
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
