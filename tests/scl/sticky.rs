//! 3.6 Sticky session by cookie: cases 55 to 63.
