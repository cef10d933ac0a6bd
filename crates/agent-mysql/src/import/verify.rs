//! The comparison of the cluster with its source: both have a snapshot with exactly the same writes, and each table is read in both, one after
//! the other.

use std::time::Duration;

use super::ANSWER;
use super::record::{name, quoted};
use super::source::databases;
use crate::flavor::Flavor;
use crate::sql::{Sql, SqlError};

/// How long a table may take.
const TABLE: Duration = Duration::from_secs(24 * 3600);

/// The result.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many tables were compared.
    pub tables: usize,
    /// How many rows they have.
    pub rows: u64,
    /// The tables that differ.
    pub differ: Vec<String>,
}

/// Compares all tables of clients. A session of a comparison has one time zone and no limit.
pub async fn compare(source: &mut Sql, cluster: &mut Sql) -> Result<Verified, SqlError> {
    for sql in [&mut *source, &mut *cluster] {
        sql.run("SET SESSION time_zone = '+00:00'", ANSWER).await?;
        sql.run("SAVEPOINT compare", ANSWER).await?;
    }
    let mut verified = Verified::default();
    for database in databases(source).await? {
        let tables = format!(
            "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1",
            quoted(&database.name)
        );
        for table in source.rows(&tables, TABLE).await? {
            let table = table.text("name");
            let query = checksum(source, &database.name, &table).await?;
            let there = source.rows(&query, TABLE).await?;
            // A table or a column that does not exist differs.
            let here = match cluster.rows(&query, TABLE).await {
                Err(SqlError::Server(_)) => None,
                here => Some(here?),
            };
            // A statement that changes the table need not wait for the end of the comparison.
            for sql in [&mut *source, &mut *cluster] {
                sql.run("ROLLBACK TO SAVEPOINT compare", ANSWER).await?;
            }
            let sums = |rows: &[crate::sql::RowFields]| {
                rows.first().map(|row| ["number", "sum", "mix"].map(|field| row.text(field)))
            };
            verified.tables += 1;
            verified.rows += there.first().and_then(|row| row.number("number")).unwrap_or_default();
            if sums(&there) != here.as_deref().and_then(sums) {
                verified.differ.push(format!("{}.{}", database.name, table));
            }
        }
    }
    Ok(verified)
}

/// The query that sums a table up. The sums do not depend on the order of the rows, nor on the version of the database.
async fn checksum(sql: &mut Sql, database: &str, table: &str) -> Result<String, SqlError> {
    let columns = format!(
        "SELECT COLUMN_NAME AS name, DATA_TYPE AS type FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}' \
         ORDER BY ORDINAL_POSITION",
        quoted(database),
        quoted(table)
    );
    let columns = sql.rows(&columns, TABLE).await?;
    let fields = columns.iter().map(|row| field(sql.flavor, &name(&row.text("name")), &row.text("type")));
    let fields = fields.collect::<Vec<_>>().join(", ");
    Ok(format!(
        "SELECT COUNT(*) AS number, SUM(s) AS sum, BIT_XOR(s * 2654435761 % 4294967291) AS mix \
         FROM (SELECT CRC32(CONCAT_WS(',', {fields})) AS s FROM {}.{}) AS t",
        name(database),
        name(table)
    ))
}

/// What the sum has of a column: whether it is `NULL`, and its value.
fn field(flavor: Flavor, column: &str, kind: &str) -> String {
    let kind = kind.to_lowercase();
    let value = match kind.as_str() {
        // As a number with fraction, `HEX` would round them.
        "decimal" | "double" => column.to_owned(),
        // It is shown with fewer digits than it has.
        "float" => format!("CAST({column} AS DOUBLE)"),
        // `HEX` of a text would double what is large already.
        kind if ["text", "blob", "json", "geometry"].iter().any(|large| kind.ends_with(large)) => match flavor {
            Flavor::Mariadb => format!("MD5({column})"),
            // 9.6 has no others.
            Flavor::Mysql => format!("SHA2({column}, 224)"),
        },
        _ => format!("HEX({column})"),
    };
    format!("ISNULL({column}), {value}")
}

#[cfg(test)]
mod tests {
    use super::field;
    use crate::flavor::Flavor::{Mariadb, Mysql};

    #[test]
    fn values_are_compared_with_all_their_digits() {
        for (flavor, kind, expected) in [
            (Mariadb, "int", "ISNULL(`c`), HEX(`c`)"),
            (Mariadb, "float", "ISNULL(`c`), CAST(`c` AS DOUBLE)"),
            (Mysql, "decimal", "ISNULL(`c`), `c`"),
            (Mariadb, "longtext", "ISNULL(`c`), MD5(`c`)"),
            (Mysql, "json", "ISNULL(`c`), SHA2(`c`, 224)"),
            (Mysql, "varchar", "ISNULL(`c`), HEX(`c`)"),
        ] {
            assert_eq!(field(flavor, "`c`", kind), expected);
        }
    }
}
