//! 3.8 Hints: cases 74 to 82.
