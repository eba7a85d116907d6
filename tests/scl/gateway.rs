//! 3.22 Gateway: cases 274 to 289.
