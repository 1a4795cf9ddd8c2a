//! The workloads' procedures in Java, compiled when this was built.

/// The jar with the classes of `testing/workloads/java`. Empty in a binary that was built without a
/// JDK.
pub fn workloads_jar() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/workloads.jar"))
}
