//! The owners of partitions, on tables `engine` and `owner` of the catalog. Leases are rows that are compared on the
//! database's clock, in the statement itself: the clock of an engine is never used. No locks of a session, no open
//! transactions: every statement is a decision of its own. Must not decide anything about a task.

mod limiter;
pub(super) mod statement;

use super::{connections::Connections, state::MysqlStore, statements::sql};
use async_trait::async_trait;
use punctual_contract::{
    Error, Happened, Ownership,
    ownership::{Live, Owner, Says, Tenure},
};
use punctual_domain::{place::Partition, time::Millis};
use sqlx::{Row, mysql::MySqlRow};
use statement::{LONGEST, Statement, apart};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// Connections that nothing but ownership uses: a heartbeat never waits behind anything else.
const OWNERSHIP_CONNECTIONS: u32 = 3;
/// Far more changes of owner than there can have been, and far below what `tokens` bears.
const TERM_MAX: i64 = 1 << 46;

/// Letters of column `without_databases`.
const WITHOUT_MAX: usize = 1_000;

impl MysqlStore {
    /// The ownership that engines on these databases share.
    #[must_use]
    pub fn ownership(&self) -> MysqlOwnership {
        let catalog = self.inner.catalog.beside(OWNERSHIP_CONNECTIONS);
        MysqlOwnership::new(catalog, self.inner.addresses.len())
    }
}

/// Ownership of the partitions of one cluster. The engine that holds a tenure counts its end from before the call
/// that returned it: so it never trusts a lease for longer than the database does.
#[derive(Clone, Debug)]
pub struct MysqlOwnership {
    catalog: Connections,
    names_databases: i64,
    has_redis: bool,
}

/// The value of column `has_hot` of an engine whose settings name no Redis. Otherwise 1 states that Redis answers it,
/// and 0 that it does not.
const NO_REDIS: i64 = 2;

impl MysqlOwnership {
    /// Uses its own connections to the first database of the store, with its schema; its sessions are in READ
    /// COMMITTED. Each heartbeat of an engine has the number of databases that it knows: no partition moves to one
    /// that an engine does not know.
    pub(super) fn new(catalog: Connections, names_databases: usize) -> Self {
        let names_databases = i64::try_from(names_databases).unwrap_or(i64::MAX);
        Self { catalog, names_databases, has_redis: true }
    }

    /// Records that the settings of this engine name no Redis. Each heartbeat reports that.
    #[must_use]
    pub fn without_redis(self) -> Self {
        Self { has_redis: false, ..self }
    }

    /// Other engines that are alive and have a Redis where this one has none, or have none where this one has one. An engine of a
    /// release that does not say so counts as one that has.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn engines_that_differ(&self, engine: &str) -> Result<Vec<String>, Error> {
        let (catalog, engine, has_redis) = (self.catalog.clone(), engine.to_owned(), self.has_redis);
        apart("look at the other engines", Happened::No, async move {
            let mut differing = Vec::new();
            for row in Statement::new(sql!(ownership, list_live_engines)).fetch(&catalog).await? {
                let (name, says): (String, i8) = (row.try_get(0)?, row.try_get(1)?);
                if name != engine && (i64::from(says) != NO_REDIS) != has_redis {
                    differing.push(name);
                }
            }
            Ok(differing)
        })
        .await
    }
}

#[async_trait]
impl Ownership for MysqlOwnership {
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error> {
        let (catalog, engine, named) = (self.catalog.clone(), engine.to_owned(), self.names_databases);
        let has_hot = if self.has_redis { i64::from(says.has_hot) } else { NO_REDIS };
        let without = list_of(&says.without);
        apart("beat", Happened::Maybe, async move {
            let beat = Statement::new(sql!(ownership, heartbeat)).text(&engine);
            let beat = beat.int(ms(ttl)).int(named).int(has_hot).text(&without);
            beat.int(ms(ttl)).int(named).int(has_hot).text(&without).execute(&catalog).await?;
            let live = Statement::new(sql!(ownership, list_live_engines)).fetch(&catalog).await?;
            live.iter().map(said).collect()
        })
        .await
    }

    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error> {
        let (catalog, engine) = (self.catalog.clone(), engine.to_owned());
        let wanted = partitions.to_vec();
        apart("acquire partitions", Happened::Maybe, async move {
            let mut held = HashMap::new();
            for some in wanted.chunks(LONGEST) {
                let numbers: Vec<i64> = some.iter().map(|partition| i64::from(partition.0)).collect();
                held.extend(take(&catalog, &engine, &numbers, ttl).await?);
            }
            let tenure = |partition: &Partition| {
                held.get(&i64::from(partition.0)).map(|term| Tenure { partition: *partition, term: *term })
            };
            Ok(wanted.iter().map(tenure).collect())
        })
        .await
    }

    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error> {
        let (catalog, engine, held) = (self.catalog.clone(), engine.to_owned(), held.to_vec());
        apart("renew leases", Happened::Maybe, async move {
            let mut kept = Vec::with_capacity(held.len());
            for some in held.chunks(LONGEST) {
                kept.extend(keep(&catalog, &engine, some, ttl).await?);
            }
            Ok(kept)
        })
        .await
    }

    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error> {
        if above >= TERM_MAX {
            let problem = format!("a term of {above} cannot have been given by any owner");
            return Err(Error::did_not_happen("raise terms", problem));
        }
        let (catalog, engine, held) = (self.catalog.clone(), engine.to_owned(), held.to_vec());
        apart("raise terms", Happened::Maybe, async move {
            let mut raised = Vec::with_capacity(held.len());
            for some in held.chunks(LONGEST) {
                raised.extend(lift(&catalog, &engine, some, above + 1).await?);
            }
            Ok(raised)
        })
        .await
    }

    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error> {
        let (catalog, engine, held) = (self.catalog.clone(), engine.to_owned(), held.to_vec());
        apart("release partitions", Happened::Maybe, async move {
            for some in held.chunks(LONGEST) {
                let release = Statement::new(sql!(ownership, release)).text(&engine);
                release.list(&numbers(some)).list(&tokens(some)).execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn leave(&self, engine: &str) -> Result<(), Error> {
        let (catalog, engine) = (self.catalog.clone(), engine.to_owned());
        apart("leave", Happened::Maybe, async move {
            Statement::new(sql!(ownership, leave)).text(&engine).execute(&catalog).await?;
            Ok(())
        })
        .await
    }

    async fn now(&self) -> Result<Option<Millis>, Error> {
        let catalog = self.catalog.clone();
        apart("read the database's clock", Happened::No, async move {
            let rows = Statement::new(sql!(ownership, read_clock)).fetch(&catalog).await?;
            rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0).map(|at| Some(Millis(at)))
        })
        .await
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        let catalog = self.catalog.clone();
        apart("read owners", Happened::No, async move {
            let rows = Statement::new(sql!(ownership, list_owners)).fetch(&catalog).await?;
            rows.iter().map(owner).collect()
        })
        .await
    }
}

/// The terms of those that `engine` holds afterwards, by partition.
async fn take(
    catalog: &Connections,
    engine: &str,
    wanted: &[i64],
    ttl: Duration,
) -> Result<HashMap<i64, i64>, sqlx::Error> {
    let mut seen = acquire(catalog, engine, wanted, ttl).await?;
    let there: HashSet<i64> = seen.iter().map(|seen| seen.partition).collect();
    let mut new: Vec<i64> = wanted.iter().copied().filter(|number| !there.contains(number)).collect();
    if !new.is_empty() {
        // In order: two engines that start at once wait for each other in one direction only.
        new.sort_unstable();
        Statement::new(sql!(ownership, insert_owners)).list(&new).execute(catalog).await?;
        seen.extend(acquire(catalog, engine, &new, ttl).await?);
    }
    Ok(seen.into_iter().filter(|seen| seen.is_mine).map(|seen| (seen.partition, seen.term)).collect())
}

struct OwnerRow {
    partition: i64,
    term: i64,
    is_mine: bool,
}

/// Acquires free partitions, then reads all: a partition that another engine acquires in between had an ended lease,
/// and belongs to that engine.
async fn acquire(
    catalog: &Connections,
    engine: &str,
    wanted: &[i64],
    ttl: Duration,
) -> Result<Vec<OwnerRow>, sqlx::Error> {
    let acquire =
        Statement::new(sql!(ownership, acquire)).text(engine).text(engine).int(ms(ttl)).text(engine);
    acquire.list(wanted).execute(catalog).await?;
    let rows = Statement::new(sql!(ownership, read_tenures)).text(engine).list(wanted).fetch(catalog).await?;
    let seen = |row: &MySqlRow| {
        let partition = i64::from(row.try_get::<i32, _>(0)?);
        Ok(OwnerRow { partition, term: row.try_get(1)?, is_mine: row.try_get::<i64, _>(2)? == 1 })
    };
    rows.iter().map(seen).collect()
}

/// One statement when nothing is lost, which is nearly always.
async fn keep(
    catalog: &Connections,
    engine: &str,
    held: &[Tenure],
    ttl: Duration,
) -> Result<Vec<bool>, sqlx::Error> {
    let renew = Statement::new(sql!(ownership, renew)).int(ms(ttl)).text(engine);
    let renewed = renew.list(&numbers(held)).list(&tokens(held)).execute(catalog).await?;
    if usize::try_from(renewed) == Ok(held.len()) {
        return Ok(vec![true; held.len()]);
    }
    let seen = Statement::new(sql!(ownership, read_tenures))
        .text(engine)
        .list(&numbers(held))
        .fetch(catalog)
        .await?;
    let mut mine = HashSet::new();
    for row in &seen {
        if row.try_get::<i64, _>(2)? == 1 {
            mine.insert((i64::from(row.try_get::<i32, _>(0)?), row.try_get::<i64, _>(1)?));
        }
    }
    Ok(held.iter().map(|tenure| mine.contains(&(i64::from(tenure.partition.0), tenure.term))).collect())
}

/// Returns the partitions of `held` that are still held, with their term from now on. One that another call has
/// raised meanwhile counts as lost here; the engine that renews it gets that answer.
async fn lift(
    catalog: &Connections,
    engine: &str,
    held: &[Tenure],
    term: i64,
) -> Result<Vec<Option<Tenure>>, sqlx::Error> {
    let before = held_terms(catalog, engine, held).await?;
    let lift = Statement::new(sql!(ownership, raise_terms)).int(term).text(engine);
    lift.list(&numbers(held)).list(&tokens(held)).execute(catalog).await?;
    let after = held_terms(catalog, engine, held).await?;
    let raised = |tenure: &Tenure| {
        let was_held = before.get(&tenure.partition.0) == Some(&tenure.term);
        let term =
            *after.get(&tenure.partition.0).filter(|after| was_held && **after == term.max(tenure.term))?;
        Some(Tenure { term, ..*tenure })
    };
    Ok(held.iter().map(raised).collect())
}

/// The terms of the partitions that `engine` holds.
async fn held_terms(
    catalog: &Connections,
    engine: &str,
    held: &[Tenure],
) -> Result<HashMap<u16, i64>, sqlx::Error> {
    let rows = Statement::new(sql!(ownership, read_tenures))
        .text(engine)
        .list(&numbers(held))
        .fetch(catalog)
        .await?;
    let mut terms = HashMap::new();
    for row in rows.iter() {
        if row.try_get::<i64, _>(2)? == 1 {
            terms.extend(u16::try_from(row.try_get::<i32, _>(0)?).ok().zip(Some(row.try_get(1)?)));
        }
    }
    Ok(terms)
}

fn numbers(held: &[Tenure]) -> Vec<i64> {
    held.iter().map(|tenure| i64::from(tenure.partition.0)).collect()
}

/// One number a tenure. A term grows by one a change of owner, and does not come near 2^47.
fn tokens(held: &[Tenure]) -> Vec<i64> {
    held.iter()
        .map(|tenure| tenure.term.saturating_mul(65_536).saturating_add(i64::from(tenure.partition.0)))
        .collect()
}

fn said(row: &MySqlRow) -> Result<Live, sqlx::Error> {
    let without: Option<String> = row.try_get(2)?;
    Ok(Live {
        engine: row.try_get(0)?,
        has_hot: row.try_get::<i8, _>(1)? != 0,
        without: without.map(|text| text.split(',').filter_map(|part| part.parse().ok()).collect()),
    })
}

/// Numbers with commas between. Only the numbers that fit into the column are written.
fn list_of(numbers: &[usize]) -> String {
    let mut list = String::new();
    for number in numbers {
        let comma = if list.is_empty() { "" } else { "," };
        let more = format!("{comma}{number}");
        if list.len() + more.len() > WITHOUT_MAX {
            break;
        }
        list.push_str(&more);
    }
    list
}

fn owner(row: &MySqlRow) -> Result<Owner, sqlx::Error> {
    let number = row.try_get::<i32, _>(0)?;
    let partition = u16::try_from(number).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let left = u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0);
    Ok(Owner {
        tenure: Tenure { partition: Partition(partition), term: row.try_get(1)? },
        engine: row.try_get(2)?,
        left: Duration::from_millis(left),
    })
}

fn ms(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2)
}
