//! The options of a store in MySQL. Must not open anything.

/// The options of a store. The number of partitions counts only when the cluster is created.
#[derive(Clone, Debug)]
pub struct MysqlOptions {
    /// 1 to 65,535.
    pub partitions: u16,
    /// Connections to each database that insert, 1 to 8: more of them only wait for each other. Half as many make moves, and
    /// twice half as many hand out leases: one of two is for tenants whose leases would wait for another's.
    pub writers_per_database: u32,
    /// Connections to each database that read, at least 2.
    pub readers_per_database: u32,
}

impl Default for MysqlOptions {
    fn default() -> Self {
        Self { partitions: 16, writers_per_database: 2, readers_per_database: 4 }
    }
}
