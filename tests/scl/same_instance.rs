//! 3.5 Same-instance preference: cases 48 to 54.
