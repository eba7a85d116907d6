//! 3.13 Health check: cases 137 to 165.
