//! 3.24 Metrics: cases 301 to 310.
