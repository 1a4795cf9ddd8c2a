//! Finding the JVM of this machine: the one that `JAVA_HOME` names, else the one that the
//! `java` on the path belongs to.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest Java that runs procedures.
const OLDEST_JAVA: u32 = 17;
/// Where a Java installation keeps its JVM.
const LIBRARIES: &[&str] = &["lib/server/libjvm.so", "lib/server/libjvm.dylib"];
/// What to do where there is none.
const ADVICE: &str = "Install Java 17 or newer (a JRE is enough; on Debian: apt install \
                      openjdk-17-jre-headless) and set JAVA_HOME to it, or have its `java` on the \
                      PATH of the server";

/// A Java installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// Its folder.
    pub(crate) home: PathBuf,
    /// The JVM's shared library.
    pub(crate) library: PathBuf,
}

/// Finds the installation to use.
///
/// # Errors
/// Says what is missing or too old, and what to install.
pub(crate) fn find() -> Result<Installation, String> {
    let named = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let home = match named {
        Some(home) => PathBuf::from(home),
        None => home_of_command().ok_or_else(|| {
            format!(
                "Java is not installed: JAVA_HOME is not set and no `java` is on the PATH. \
                 {ADVICE}."
            )
        })?,
    };
    examine(&home)
}

/// The installation of the first `java` on the path.
fn home_of_command() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut commands = env::split_paths(&path).map(|folder| folder.join("java"));
    let command = commands.find(|command| command.is_file())?;
    // Distributions put links on the path: the installation is where they lead.
    let command = fs::canonicalize(command).ok()?;
    Some(command.parent()?.parent()?.to_path_buf())
}

/// Checks an installation.
fn examine(home: &Path) -> Result<Installation, String> {
    let shown = home.display();
    // A JDK 8 keeps its JVM elsewhere: its age is the better reason.
    if let Ok(release) = fs::read_to_string(home.join("release"))
        && let Some(version) = feature_version(&release)
        && version < OLDEST_JAVA
    {
        return Err(format!(
            "The Java at {shown} is version {version}, which is too old. {ADVICE}."
        ));
    }
    let libraries = LIBRARIES.iter().map(|library| home.join(library));
    match libraries.into_iter().find(|library| library.is_file()) {
        Some(library) => Ok(Installation { home: home.to_path_buf(), library }),
        None => Err(format!("There is no JVM ({}) in {shown}. {ADVICE}.", LIBRARIES[0])),
    }
}

/// The number that Java versions are known by: 17 of `JAVA_VERSION="17.0.15"`, 8 of `"1.8.0_402"`.
fn feature_version(release: &str) -> Option<u32> {
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    let mut parts = line.trim().trim_matches('"').split(['.', '_', '-', '+']);
    match parts.next()?.parse().ok()? {
        1 => parts.next()?.parse().ok(),
        version => Some(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (release, version) in [
            ("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.15\"\n", Some(17)),
            ("JAVA_VERSION=\"1.8.0_402\"", Some(8)),
            ("JAVA_VERSION=\"25-ea\"", Some(25)),
            ("JAVA_VERSION=\"\"", None),
            ("OS_NAME=\"Linux\"", None),
        ] {
            assert_eq!(feature_version(release), version, "{release}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = env::temp_dir().join(format!("lockstep-jvm-find-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let missing = examine(&folder).expect_err("an empty folder is no installation");
        assert!(missing.contains("There is no JVM") && missing.contains("Java 17"), "{missing}");
        fs::write(folder.join("release"), "JAVA_VERSION=\"11.0.2\"\n").expect("a file");
        let old = examine(&folder).expect_err("it is too old");
        assert!(old.contains("version 11, which is too old"), "{old}");
        fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
