//! 3.16 Per-client properties and contexts: cases 189 to 198.
