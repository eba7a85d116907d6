//! 3.12 Caching: cases 117 to 136.
