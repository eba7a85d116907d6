//! 3.20 Request factory, interceptors, service groups: cases 252 to 257.
