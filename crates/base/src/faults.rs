//! Ways to break something on purpose, which a released binary does not have.

/// Declares a set of faults that tests inject: each is off, unless it is switched on in a build
/// with the feature `faults` of the crate that declares them. In any other build the set is empty
/// and each question is answered with a constant, so that nothing is left of it.
#[macro_export]
macro_rules! faults {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $fault:ident,)* }) => {
        $(#[$meta])*
        #[cfg(feature = "faults")]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $fault: bool,)*
        }

        $(#[$meta])*
        #[cfg(not(feature = "faults"))]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name {}

        impl $name {
            $($(#[$doc])*
            #[inline(always)]
            pub const fn $fault(self) -> bool {
                #[cfg(feature = "faults")]
                {
                    self.$fault
                }
                #[cfg(not(feature = "faults"))]
                {
                    false
                }
            })*
        }
    };
}
