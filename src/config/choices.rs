//! The properties that are one word out of a few.

use serde::{Deserialize, Serialize};

/// Writes an enum of words: the variants, the spelling in a file, reading without regard to case or dashes.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $allowed:literal { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant),+ }

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

words! {
    /// One word that changes a family of defaults; an explicit value always wins over it.
    ///
    /// Property: `evenkeel.preset`. Default: `spring`.
    Preset, "spring, kubernetes or modern" {
        /// Spring's defaults: round robin, the last list served without bound in an outage.
        #[default]
        Spring = "spring",
        /// Least request, a staleness bound of 5 minutes, no empty guard for a source that watches.
        Kubernetes = "kubernetes",
        /// Least request.
        Modern = "modern",
    }
}

words! {
    /// How an instance is picked from the list.
    ///
    /// Property: `evenkeel.policy`. Default: `round-robin`; `least-request` under the presets `kubernetes` and
    /// `modern`.
    PolicyName, "round-robin, random or least-request" {
        /// Each instance in turn, from a random start.
        #[default]
        RoundRobin = "round-robin",
        /// Any instance, by chance.
        Random = "random",
        /// The one of two drawn instances with fewer requests in flight.
        LeastRequest = "least-request",
    }
}

words! {
    /// A stage of the chain between the registry and the pick.
    ///
    /// Property: `evenkeel.configurations`, one word, a comma list or a list. Default: `default`.
    StageName, "default, zone-preference, weighted, hint, health-check, request-based-sticky-session or same-instance-preference" {
        /// The plain chain: the registry's list and the cache.
        #[default]
        Default = "default",
        /// Instances of the own zone are preferred.
        ZonePreference = "zone-preference",
        /// Weights are honoured.
        Weighted = "weighted",
        /// Instances whose metadata `hint` equals the request's hint are preferred.
        Hint = "hint",
        /// Instances that fail their health check are left out.
        HealthCheck = "health-check",
        /// A request goes back to the instance that its cookie names.
        StickySession = "request-based-sticky-session",
        /// A request goes to the instance that the last one went to.
        SameInstance = "same-instance-preference",
    }
}

words! {
    /// How a health check asks an instance.
    ///
    /// Property: `evenkeel.health-check.probe`. Default: `http`.
    ProbeName, "http or tcp" {
        /// A GET of `health-check.path` that must answer 200; needs the feature `reqwest`.
        #[default]
        Http = "http",
        /// Alive is who accepts a connection.
        Tcp = "tcp",
    }
}

impl StageName {
    /// Names of stages that Spring has and this version has not.
    ///
    /// They are told apart from a misspelling because the reader did nothing wrong: the answer is "not yet".
    pub(crate) fn not_yet(text: &str) -> bool {
        ["subset", "api-version"]
            .iter()
            .any(|known| super::key::uniform(known) == super::key::uniform(text.trim()))
    }
}

words! {
    /// What a weight of zero means.
    ///
    /// Property: `evenkeel.weight.zero`. Default: `drain`.
    ZeroWeight, "drain or one" {
        /// The instance gets no new requests, also where weights are off.
        #[default]
        Drain = "drain",
        /// The instance counts as weight 1, as in Spring.
        One = "one",
    }
}

words! {
    /// What a caller waits for once a list is older than its TTL.
    ///
    /// Property: `evenkeel.cache.refresh`. Default: `behind`.
    Refresh, "behind or wait" {
        /// The list at hand is served and a look-up starts behind it.
        #[default]
        Behind = "behind",
        /// The caller waits for the look-up, as in Spring.
        Wait = "wait",
    }
}

words! {
    /// What happens to a request whose routing value names no group of instances.
    ///
    /// Property: `evenkeel.routing[i].unknown`. Default: `all`.
    UnknownGroup, "all or nothing" {
        /// Every instance may serve it.
        #[default]
        All = "all",
        /// No instance may serve it: the choice is an error.
        Nothing = "nothing",
    }
}
