use std::fmt;

/// A share of traffic relative to the other instances of a service, kept in thousandths.
///
/// Any real number from 0 to 4 294 967 295 (the largest `u32`); 1 is the default; **0 drains** the instance. A fraction
/// is honoured to 1/1000, and a positive weight never rounds down to 0: the smallest is 0.001.
///
/// ```
/// use evenkeel::Weight;
///
/// assert_eq!(" 1.5 ".parse::<Weight>()?.thousandths(), 1_500);
/// assert_eq!("0.0001".parse::<Weight>()?.thousandths(), 1);
/// assert!("0".parse::<Weight>()?.is_zero());
/// assert!("NaN".parse::<Weight>().is_err());
/// # Ok::<(), evenkeel::InvalidWeight>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u64);

impl Weight {
    /// Weight 1: what an instance without a weight has.
    pub const ONE: Self = Self(1_000);
    /// Weight 0: the instance is drained.
    pub const ZERO: Self = Self(0);
    /// The largest weight, `u32::MAX`: more is taken for a mistake of the registration.
    pub const MAX: Self = Self(u32::MAX as u64 * 1_000);

    /// A weight from a real number.
    ///
    /// # Errors
    /// [`InvalidWeight`] for a negative number, one above `u32::MAX`, NaN and infinity.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked: finite, 0 ..= u32::MAX * 1000
    pub fn new(value: f64) -> Result<Self, InvalidWeight> {
        if !value.is_finite() || value < 0.0 || value > f64::from(u32::MAX) {
            return Err(InvalidWeight { given: value.to_string() });
        }
        let thousandths = (value * 1_000.0).round() as u64;
        Ok(Self(if value > 0.0 { thousandths.max(1) } else { 0 }))
    }

    /// The weight in thousandths.
    pub const fn thousandths(self) -> u64 {
        self.0
    }

    /// So many thousandths, at most [`MAX`](Self::MAX).
    pub(crate) fn of_thousandths(thousandths: u64) -> Self {
        Self(thousandths.min(Self::MAX.0))
    }

    /// Whether this weight drains the instance.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl std::str::FromStr for Weight {
    type Err = InvalidWeight;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || InvalidWeight { given: text.to_owned() };
        text.trim()
            .parse::<f64>()
            .map_err(|_| wrong())
            .and_then(|value| Self::new(value).map_err(|_| wrong()))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000, self.0 % 1_000);
        if rest == 0 {
            write!(f, "{whole}")
        } else {
            write!(f, "{}", format!("{whole}.{rest:03}").trim_end_matches('0'))
        }
    }
}

/// A value that is no weight; it quotes what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidWeight {
    given: String,
}

impl fmt::Display for InvalidWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no weight: a number from 0 to {} is expected", self.given, u32::MAX)
    }
}

impl std::error::Error for InvalidWeight {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_008_hostile_texts() {
        for bad in
            ["", "abc", "-3", "NaN", "inf", "-inf", "99999999999999999999", "4294967296", "1e400", "0x10"]
        {
            assert!(bad.parse::<Weight>().is_err(), "{bad}");
        }
        for (text, thousandths) in
            [("1.5", 1_500), ("0.004", 4), (" 2 ", 2_000), ("-0", 0), ("4294967295", 4_294_967_295_000)]
        {
            assert_eq!(text.parse::<Weight>().unwrap().thousandths(), thousandths, "{text}");
        }
    }

    #[test]
    fn it_prints_as_it_is_written() {
        for text in ["0", "1", "1.5", "0.004", "12.34", "4294967295"] {
            assert_eq!(text.parse::<Weight>().unwrap().to_string(), text);
        }
    }
}
