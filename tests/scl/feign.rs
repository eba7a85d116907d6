//! 3.23 `OpenFeign`: cases 290 to 300.
