//! 3.1 Round robin: cases 1 to 16.
