//! The properties that are one word out of a few.

use super::words::words;
use serde::{Deserialize, Serialize};

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
        /// Peak EWMA, outlier detection, slow start.
        Modern = "modern",
    }
}

words! {
    /// How an instance is picked from the list.
    ///
    /// Property: `evenkeel.policy`. Default: `round-robin`; `least-request` under the preset `kubernetes`, `peak-ewma` under
    /// `modern`.
    PolicyName, "round-robin, random, least-request, peak-ewma, ring-hash, maglev, rendezvous, consistent-hash, smooth-round-robin, least-active, shortest-response, adaptive, weighted-response-time, best-available, availability-filtering, zone-avoidance or client-side-weighted-round-robin" {
        /// Each instance in turn, from a random start.
        #[default]
        RoundRobin = "round-robin",
        /// Any instance, by chance.
        Random = "random",
        /// The one of two drawn instances with fewer requests in flight.
        LeastRequest = "least-request",
        /// The one of two drawn instances whose answers take less, times its requests in flight.
        PeakEwma = "peak-ewma",
        /// By a key of the request, on a ring as gRPC and Envoy have it; see [`HashProperties`](super::HashProperties).
        RingHash = "ring-hash",
        /// By a key of the request, by Maglev's table.
        Maglev = "maglev",
        /// By a key of the request, which every instance draws for.
        Rendezvous = "rendezvous",
        /// By a key of the request, on Dubbo's ring.
        ConsistentHash = "consistent-hash",
        /// Each instance in turn by weight, in the order of nginx and Dubbo.
        SmoothRoundRobin = "smooth-round-robin",
        /// The one of all with the fewest requests in flight per weight.
        LeastActive = "least-active",
        /// The one of all whose next answer is expected first.
        ShortestResponse = "shortest-response",
        /// The one of two drawn instances with the smaller load by their own reports, as Dubbo reckons it.
        Adaptive = "adaptive",
        /// Any instance, by chance, the more likely the faster it answers; Ribbon's.
        WeightedResponseTime = "weighted-response-time",
        /// The one of all with the fewest requests in flight; Ribbon's.
        BestAvailable = "best-available",
        /// Each instance in turn, past those that are out of use or busy; Ribbon's.
        AvailabilityFiltering = "availability-filtering",
        /// The same, without zones that are out of use or loaded most; Ribbon's.
        ZoneAvoidance = "zone-avoidance",
        /// Each instance in turn, weighted by what it reports of its load, as in gRPC and Envoy.
        ClientSideWeightedRoundRobin = "client-side-weighted-round-robin",
    }
}

/// What other projects call a policy: the classes of Ribbon and Spring, and gRPC's name.
const OTHER_NAMES: [(&str, PolicyName); 11] = [
    ("RoundRobinRule", PolicyName::RoundRobin),
    ("RoundRobinLoadBalancer", PolicyName::RoundRobin),
    ("RandomRule", PolicyName::Random),
    ("RandomLoadBalancer", PolicyName::Random),
    ("WeightedResponseTimeRule", PolicyName::WeightedResponseTime),
    ("ResponseTimeWeightedRule", PolicyName::WeightedResponseTime),
    ("BestAvailableRule", PolicyName::BestAvailable),
    ("AvailabilityFilteringRule", PolicyName::AvailabilityFiltering),
    ("ZoneAvoidanceRule", PolicyName::ZoneAvoidance),
    ("weighted_round_robin", PolicyName::ClientSideWeightedRoundRobin),
    ("weighted-by-load", PolicyName::ClientSideWeightedRoundRobin),
];

impl PolicyName {
    /// Reads the word, or the name that another project has for the policy; a class may have its package.
    pub(crate) fn of_word(text: &str) -> Option<Self> {
        let class = text.trim().rsplit('.').next().unwrap_or_default();
        let named = |(name, _): &&(&str, Self)| super::key::uniform(name) == super::key::uniform(class);
        Self::read(text).or_else(|| OTHER_NAMES.iter().find(named).map(|(_, policy)| *policy))
    }
}

words! {
    /// Whom the header `Host` of a balanced request names, and `:authority` where a client can tell it apart.
    ///
    /// Property: `evenkeel.host-header`. Default: `instance`, as in Spring, whose clients rewrite the URL and whose gateway
    /// drops the header that came.
    HostHeader, "instance or service" {
        /// The instance: host and port of the URL that is called.
        #[default]
        Instance = "instance",
        /// The service, as the caller's URL has it: for servers that tell sites apart by their names.
        Service = "service",
    }
}

words! {
    /// A stage of the chain between the registry and the pick.
    ///
    /// Property: `evenkeel.configurations`, one word, a comma list or a list. Default: `default`.
    StageName, "default, zone-preference, weighted, hint, health-check, request-based-sticky-session, same-instance-preference, priority, subset or api-version" {
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
        /// A part of the list for this client.
        Subset = "subset",
        /// Only instances of the API version that the request asks for.
        ApiVersion = "api-version",
        /// Instances of the first priority that can take the traffic; the next ones take what is too much for it.
        Priority = "priority",
    }
}

words! {
    /// How the own zone is preferred.
    ///
    /// Property: `evenkeel.zone-preference.mode`. Default: `all-or-nothing`; `proportional` under the preset `kubernetes`.
    ZoneMode, "all-or-nothing or proportional" {
        /// The own zone takes everything as long as it has an instance, as in Spring.
        #[default]
        AllOrNothing = "all-or-nothing",
        /// What is more than the own zone's fair part goes to zones with room, in proportion to it.
        Proportional = "proportional",
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
