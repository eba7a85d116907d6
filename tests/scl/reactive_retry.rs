//! 3.19 Filter and retry, reactive: cases 231 to 251.
