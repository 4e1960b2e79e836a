//! The file of the embedded store.

use super::{
    findings::{Findings, finding, limited, unanswered},
    list::{FILE_INTEGRITY, FILE_LOG, FILE_SCHEMA, Judged},
    verdicts,
};
use punctual_store::{SqliteDoctor, SqliteFacts};
use std::path::Path;

pub(super) async fn examine(path: &Path) -> Findings {
    let at = path.display().to_string();
    let doctor = SqliteDoctor::new(path);
    let facts = match limited(blocking(&doctor, SqliteDoctor::facts)).await {
        Ok(sqlite_facts) => sqlite_facts,
        Err(said) => {
            let way_out = "another file, or the program that made this one; serve refuses it as it is";
            return vec![finding(&FILE_SCHEMA, &at, Judged::wrong(said, way_out))];
        }
    };
    let mut found = vec![finding(&FILE_SCHEMA, &at, verdicts::file(&facts))];
    if facts.is_missing {
        return found;
    }
    found.push(finding(&FILE_LOG, &at, verdicts::log(&facts)));
    found.push(finding(&FILE_INTEGRITY, &at, integrity(&doctor, &facts).await));
    found
}

/// Checks the integrity, which takes as long as reading the file; the check stops at the time limit.
async fn integrity(doctor: &SqliteDoctor, facts: &SqliteFacts) -> Judged {
    match limited(blocking(doctor, SqliteDoctor::integrity)).await {
        Ok(said) => verdicts::integrity(&said),
        Err(why) if why.starts_with("no answer") => Judged::doubtful(
            format!("{} MiB are not read within the limit", facts.bytes >> 20),
            "sqlite3 FILE 'PRAGMA quick_check' at a quiet hour",
        ),
        Err(why) if facts.is_in_use => unanswered(&why),
        Err(why) => verdicts::integrity(&[why]),
    }
}

async fn blocking<T: Send + 'static>(
    doctor: &SqliteDoctor,
    look: impl FnOnce(&SqliteDoctor) -> Result<T, punctual_store::Error> + Send + 'static,
) -> Result<T, String> {
    let doctor = doctor.clone();
    let looked = tokio::task::spawn_blocking(move || look(&doctor)).await;
    looked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
