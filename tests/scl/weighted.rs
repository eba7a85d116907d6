//! 3.3 Weighted list and supplier: cases 21 to 39.
