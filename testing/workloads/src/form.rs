//! What a workload's procedures are written in.

use std::sync::Arc;

/// What procedures are written in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Form {
    /// Rust, part of the server.
    #[default]
    Native,
    /// Java: the jar of the classes, which is empty in a binary that was built without a JDK, and
    /// where the procedures are at the server already.
    Java(Arc<[u8]>),
    /// SQL statements alone.
    Sql,
}

impl Form {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Form::Native => "native",
            Form::Java(_) => "java",
            Form::Sql => "sql",
        }
    }

    /// The jar of the classes, if procedures come from one.
    ///
    /// # Errors
    /// There is none in this binary.
    pub fn classes(&self) -> Result<Option<&[u8]>, String> {
        match self {
            Form::Native | Form::Sql => Ok(None),
            Form::Java(jar) if jar.is_empty() => Err("this binary was built without a JDK, and \
                                                      has no procedures in Java; give their jar \
                                                      by --jar"
                .to_string()),
            Form::Java(jar) => Ok(Some(jar)),
        }
    }

    /// DDL of native procedures as that of the classes of the same names in a package.
    pub(crate) fn in_package(ddl: &str, package: &str) -> String {
        ddl.replace("FROM NATIVE ", &format!("FROM CLASS {package}."))
    }
}
