//! The types of options' values, so that no unit is taken for another one, and no number for a
//! choice. On the command line all of them are numbers.

use lockstep_plan::RuleSet;
#[cfg(feature = "faults")]
use lockstep_site::StopEverything;
use std::time::Duration;

/// The value of an option.
pub trait OptionValue: Copy {
    /// What its number counts, if it is always the same.
    const UNIT: Option<&'static str>;

    /// The value of a number within the option's range.
    fn from_number(number: u64) -> Self;

    /// Its number.
    fn number(self) -> u64;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident, $unit:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl OptionValue for $name {
            const UNIT: Option<&'static str> = $unit;

            fn from_number(number: u64) -> Self {
                $name(number)
            }

            fn number(self) -> u64 {
                self.0
            }
        }

        impl $name {
            /// The number.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }
    )*};
}

numbers! {
    /// A number of things; the option's row names them.
    Count, None;
    /// A number of bytes.
    Bytes, Some("bytes");
    /// Bytes in a second.
    BytesPerSecond, Some("bytes/s");
    /// A part of something, in percent.
    Percent, Some("percent");
    /// A duration in seconds.
    Seconds, Some("s");
    /// A duration in milliseconds.
    Milliseconds, Some("ms");
    /// A duration in microseconds.
    Microseconds, Some("us");
    /// A real-time priority of the operating system.
    Priority, Some("priority");
}

impl Count {
    /// As a length.
    #[inline]
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }

    /// As a number of 32 bits; one that is greater is the greatest.
    #[inline]
    pub const fn to_u32(self) -> u32 {
        if self.0 > u32::MAX as u64 { u32::MAX } else { self.0 as u32 }
    }
}

impl Bytes {
    /// As a length.
    #[inline]
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }

    /// As a number of 32 bits; one that is greater is the greatest.
    #[inline]
    pub const fn to_u32(self) -> u32 {
        if self.0 > u32::MAX as u64 { u32::MAX } else { self.0 as u32 }
    }
}

impl Seconds {
    /// In microseconds, as readings of the clock are.
    #[inline]
    pub const fn us(self) -> i64 {
        (self.0 as i64).saturating_mul(1_000_000)
    }
}

impl Milliseconds {
    /// The duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// In microseconds, as readings of the clock are.
    #[inline]
    pub const fn us(self) -> i64 {
        (self.0 as i64).saturating_mul(1_000)
    }

    /// In nanoseconds.
    #[inline]
    pub const fn ns(self) -> u64 {
        self.0.saturating_mul(1_000_000)
    }
}

impl Microseconds {
    /// The duration.
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// In nanoseconds.
    #[inline]
    pub const fn ns(self) -> u64 {
        self.0.saturating_mul(1_000)
    }
}

/// Whether something is on: 1 on the command line, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOff {
    /// It is off.
    Off,
    /// It is on.
    On,
}

impl OnOff {
    /// Whether it is on.
    pub const fn is_on(self) -> bool {
        matches!(self, OnOff::On)
    }
}

impl OptionValue for OnOff {
    const UNIT: Option<&'static str> = Some("0 or 1");

    fn from_number(number: u64) -> Self {
        if number == 0 { OnOff::Off } else { OnOff::On }
    }

    fn number(self) -> u64 {
        u64::from(self.is_on())
    }
}

/// What may be missing: 0 on the command line is none.
impl<V: OptionValue> OptionValue for Option<V> {
    const UNIT: Option<&'static str> = V::UNIT;

    fn from_number(number: u64) -> Self {
        (number > 0).then(|| V::from_number(number))
    }

    fn number(self) -> u64 {
        self.map_or(0, V::number)
    }
}

impl OptionValue for RuleSet {
    const UNIT: Option<&'static str> = Some("bits");

    fn from_number(number: u64) -> Self {
        RuleSet::from_bits(number)
    }

    fn number(self) -> u64 {
        self.bits()
    }
}

#[cfg(feature = "faults")]
impl OptionValue for StopEverything {
    const UNIT: Option<&'static str> = Some("0 to 2");

    fn from_number(number: u64) -> Self {
        match number {
            0 => StopEverything::Never,
            1 => StopEverything::ByFragments,
            _ => StopEverything::ByCalls,
        }
    }

    fn number(self) -> u64 {
        match self {
            StopEverything::Never => 0,
            StopEverything::ByFragments => 1,
            StopEverything::ByCalls => 2,
        }
    }
}
