//! 3.14 API version: cases 166 to 174.
