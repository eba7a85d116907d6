//! Properties of subsets.

use super::setters::setters;
use super::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// How a client chooses its subset.
    ///
    /// Property: `evenkeel.subset.algorithm`. Default: `low-churn`.
    SubsetAlgorithm, "low-churn or spring" {
        /// One that changes little when the list does.
        #[default]
        LowChurn = "low-churn",
        /// Spring's: even for consecutive clients, and nearly all of it changes when one instance does.
        Spring = "spring",
    }
}

/// A part of the list for this client: `evenkeel.subset.*`, for a service whose `configurations` name `subset`.
///
/// ```
/// use evenkeel::config::SubsetProperties;
///
/// assert_eq!(SubsetProperties::default().size, 100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SubsetProperties {
    /// Instances in the subset; at least 1. Default: 100.
    pub size: u32,
    /// What tells this client from others; unset is a name made of host, application and port. Default: unset.
    pub instance_id: Option<String>,
    /// The number of this client among its like, from 0, if it has one (a stateful set's pod does). Default: unset.
    pub ordinal: Option<u32>,
    /// How the subset is chosen. Default: [`SubsetAlgorithm::LowChurn`].
    pub algorithm: SubsetAlgorithm,
}

impl Default for SubsetProperties {
    fn default() -> Self {
        Self { size: 100, instance_id: None, ordinal: None, algorithm: SubsetAlgorithm::LowChurn }
    }
}

impl SubsetProperties {
    setters! {
        /// Sets how many instances are in the subset. Default: 100.
        with_size(size: u32) = size;
        /// Sets what tells this client from others. Default: unset, a name of its own.
        with_instance_id(instance_id: impl Into<Option<String>>) = instance_id.into();
        /// Sets the number of this client among its like. Default: unset.
        with_ordinal(ordinal: impl Into<Option<u32>>) = ordinal.into();
        /// Sets how the subset is chosen. Default: [`SubsetAlgorithm::LowChurn`].
        with_algorithm(algorithm: SubsetAlgorithm) = algorithm;
    }
}
