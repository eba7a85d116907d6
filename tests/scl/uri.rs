//! 3.21 URI reconstruction: cases 258 to 273.
