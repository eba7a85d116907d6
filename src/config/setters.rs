//! The one shape all `with_*` methods of the property structs have.

/// Writes consuming setters: `with_ttl(ttl: Duration) = ttl;` sets the field `ttl`.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($field:ident: $arg:ty) = $value:expr;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $field: $arg) -> Self {
            self.$field = $value;
            self
        }
    )+};
}

pub(crate) use setters;
