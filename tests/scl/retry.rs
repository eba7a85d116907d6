//! 3.18 Retry, blocking: cases 209 to 230.
