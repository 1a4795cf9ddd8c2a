//! Java procedures: the JVM inside the host process, the classes that users load, and the calls
//! of their procedures. The only crate that names JNI.
mod calls;
mod classes;
mod engine;
mod env;
mod find;
mod functions;
mod machine;
pub mod nontransactional;
mod runtime;
mod wire;
pub use calls::JavaProcedure;
pub use classes::{ClassKind, JavaClass, JavaClasses, JavaDescription, JavaStatement};
pub use engine::lift_limits;
pub use env::JavaError;
pub use functions::{aggregate_function, scalar_function};
pub use machine::JavaSettings;
pub use nontransactional::JavaNonTransactional;

/// The runtime as a jar: what procedures are compiled against. Empty in a binary that was built
/// without a JDK, which runs no Java procedures.
pub fn runtime_jar() -> &'static [u8] {
    runtime::RUNTIME_JAR
}
