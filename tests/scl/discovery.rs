//! 3.11 Discovery: cases 103 to 116.
