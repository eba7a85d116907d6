//! 3.9 Retry aware: cases 83 to 90.
