//! 3.10 Subset: cases 91 to 102.
