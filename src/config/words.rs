//! The one shape all properties have that are one word out of a few.

/// Writes an enum of words: the variants, the spelling in a file, reading without regard to case or dashes.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $allowed:literal { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// What may be written, for error messages.
            pub(crate) const ALLOWED: &'static str = $allowed;

            /// The word as property files spell it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads the word; case, dashes and underscores do not matter.
            pub(crate) fn read(text: &str) -> Option<Self> {
                let folded = super::key::uniform(text.trim());
                [$(Self::$variant),+].into_iter().find(|word| super::key::uniform(word.as_str()) == folded)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;
