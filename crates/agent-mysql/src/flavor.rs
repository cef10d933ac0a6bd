//! Which database it is. MariaDB and MySQL come from one source, and most statements differ by two words only; what differs more has its
//! own code: [`super::measured`], [`super::clone`], and branches in [`super::roles`].

use std::fmt;
use std::str::FromStr;

/// A database that the agent knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// MariaDB.
    #[default]
    Mariadb,
    /// MySQL.
    Mysql,
}

impl Flavor {
    /// The database with a version such as `10.11.19-MariaDB`.
    pub fn of(version: &str) -> Self {
        if version.contains("MariaDB") { Self::Mariadb } else { Self::Mysql }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "MariaDB",
            Self::Mysql => "MySQL",
        }
    }

    /// The program of the database.
    pub fn server(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadbd",
            Self::Mysql => "mysqld",
        }
    }

    /// The name of its socket in the volume.
    pub fn socket(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb.sock",
            Self::Mysql => "mysql.sock",
        }
    }

    /// The word for a primary in variables, fields and statements.
    pub fn source(self) -> &'static str {
        match self {
            Self::Mariadb => "MASTER",
            Self::Mysql => "SOURCE",
        }
    }

    /// The word for a replica.
    pub fn replica(self) -> &'static str {
        match self {
            Self::Mariadb => "SLAVE",
            Self::Mysql => "REPLICA",
        }
    }

    /// The beginning of the statement that makes a database follow another database.
    pub fn change_source(self) -> &'static str {
        match self {
            Self::Mariadb => "CHANGE MASTER TO",
            Self::Mysql => "CHANGE REPLICATION SOURCE TO",
        }
    }

    /// The statement after which clients cannot write. In MySQL there are privileges that the first degree does not keep from writing.
    pub fn closes(self) -> &'static str {
        match self {
            Self::Mariadb => "SET GLOBAL read_only = 1",
            Self::Mysql => "SET GLOBAL super_read_only = 1",
        }
    }

    /// The statement after which the agent can change accounts of a database that clients cannot write to, if one is needed.
    pub fn opens_for_agent(self) -> Option<&'static str> {
        match self {
            Self::Mariadb => None,
            Self::Mysql => Some("SET GLOBAL super_read_only = 0"),
        }
    }

    /// The statement that reads certificates again. It is in no binary log, and ends no connection.
    pub fn reloads_tls(self) -> &'static str {
        match self {
            // Without `LOCAL` it would be in the binary log.
            Self::Mariadb => "FLUSH LOCAL SSL",
            Self::Mysql => "ALTER INSTANCE RELOAD TLS",
        }
    }

    /// The table of all accounts.
    pub fn accounts(self) -> &'static str {
        match self {
            Self::Mariadb => "mysql.global_priv",
            Self::Mysql => "mysql.user",
        }
    }

    /// The first statement of each connection of the agent: the server's settings for clients are not for the agent.
    pub fn session(self) -> &'static str {
        match self {
            Self::Mariadb => "SET SESSION sql_mode = '', wait_timeout = 28800, max_statement_time = 0",
            Self::Mysql => "SET SESSION sql_mode = '', wait_timeout = 28800, max_execution_time = 0",
        }
    }

    /// The privilege to apply rows of a binary log.
    pub fn replays(self) -> &'static str {
        match self {
            Self::Mariadb => "BINLOG REPLAY",
            Self::Mysql => "REPLICATION_APPLIER",
        }
    }

    /// The most acknowledgements that a commit can wait for.
    pub fn most_acks(self) -> u32 {
        match self {
            Self::Mariadb => 1,
            Self::Mysql => 9,
        }
    }
}

impl FromStr for Flavor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mariadb" => Ok(Self::Mariadb),
            "mysql" => Ok(Self::Mysql),
            _ => Err("a database is mariadb or mysql".to_owned()),
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Flavor;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for flavor in [Flavor::Mariadb, Flavor::Mysql] {
            assert_eq!(flavor.to_string().parse(), Ok(flavor));
        }
        assert!("percona".parse::<Flavor>().is_err());
    }
}
