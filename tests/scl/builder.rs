//! 3.15 Builder and predefined configurations: cases 175 to 188.
