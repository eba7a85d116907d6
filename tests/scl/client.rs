//! 3.17 `LoadBalancerClient`: cases 199 to 208.
