//! 3.25 X-Forwarded and the zone of Eureka: cases 311 to 315.
