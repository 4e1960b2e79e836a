//! The content of a new database, so that one in memory can be reset with its statements still prepared: tests reset
//! thousands of stores, and creating each anew would take a third of their time. Must never be used on a file.

use super::statements::sql;
use crate::subject::filled;
use rusqlite::{Connection, params_from_iter, types::Value};

/// Every table, with its rows.
#[derive(Debug)]
pub(crate) struct TemplateFile(Vec<Table>);

#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    name: String,
    rows: Vec<Vec<Value>>,
}

impl TemplateFile {
    pub(crate) fn of(conn: &Connection) -> rusqlite::Result<Self> {
        tables(conn).map(Self)
    }

    /// Within no transaction.
    pub(crate) fn restore(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.prepare_cached("BEGIN IMMEDIATE")?.raw_execute()?;
        for table in &self.0 {
            conn.prepare_cached(&of(&table.name, sql!(open, delete_rows)))?.raw_execute()?;
        }
        // After all are empty: what a table has may follow from another one's rows.
        for table in &self.0 {
            for row in &table.rows {
                let columns = vec!["?"; row.len()].join(", ");
                let add = filled(&of(&table.name, sql!(open, insert_row)), "{columns}", &columns);
                conn.prepare_cached(&add)?.execute(params_from_iter(row))?;
            }
        }
        conn.prepare_cached("COMMIT")?.raw_execute().map(drop)
    }
}

fn of(table: &str, statement: &str) -> String {
    filled(statement, "{table}", table)
}

/// The tables in the order of their names.
pub(crate) fn tables(conn: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut names = conn.prepare_cached(sql!(open, list_tables))?;
    let names = names.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    names.into_iter().map(|name| Ok(Table { rows: rows(conn, &name)?, name })).collect()
}

fn rows(conn: &Connection, table: &str) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut all = conn.prepare(&of(table, sql!(open, list_rows)))?;
    let columns = all.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|nth| row.get(nth)).collect();
    all.query_map([], row)?.collect()
}
