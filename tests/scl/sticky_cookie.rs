//! 3.7 Instance cookie on the outgoing request: cases 64 to 73.
