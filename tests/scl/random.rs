//! 3.2 Random: cases 17 to 20.
