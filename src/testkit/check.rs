use std::fmt;

/// One of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// [`Kit::shares`](super::Kit::shares).
    Shares,
    /// [`Kit::weights`](super::Kit::weights).
    Weights,
    /// [`Kit::bursts`](super::Kit::bursts).
    Bursts,
    /// [`Kit::turns`](super::Kit::turns).
    Turns,
    /// [`Kit::keys`](super::Kit::keys).
    Keys,
    /// [`Kit::herd`](super::Kit::herd).
    Herd,
    /// [`Kit::broken_server`](super::Kit::broken_server).
    BrokenServer,
    /// [`Kit::conservation`](super::Kit::conservation).
    Conservation,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Shares,
        Self::Weights,
        Self::Bursts,
        Self::Turns,
        Self::Keys,
        Self::Herd,
        Self::BrokenServer,
        Self::Conservation,
    ];
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shares => "shares",
            Self::Weights => "weights",
            Self::Bursts => "bursts",
            Self::Turns => "turns",
            Self::Keys => "keys",
            Self::Herd => "herd",
            Self::BrokenServer => "broken server",
            Self::Conservation => "conservation",
        })
    }
}
