//! 3.4 Zone preference: cases 40 to 47.
