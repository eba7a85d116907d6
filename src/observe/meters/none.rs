//! What stands for the meters without the feature `metrics`: nothing can make one.

use std::sync::Arc;
use std::time::Duration;

use super::{CallInfo, Reading, ResponseData};
use crate::state::InstanceState;
use crate::{Outcome, ServiceId};

/// The meters of one service: never.
#[derive(Clone, Debug)]
pub(crate) enum Meters {}

impl Meters {
    pub(crate) fn new(service: &ServiceId) -> Option<Self> {
        tracing::warn!(%service, "meters need the feature `metrics`");
        None
    }

    pub(crate) fn instrument(&self, _: &InstanceState) {
        match *self {}
    }

    pub(crate) fn missed(&self) {
        match *self {}
    }

    pub(crate) fn waiting(&self) -> Waiting {
        match *self {}
    }

    pub(crate) fn attempt(
        _: &InstanceState,
        _: &CallInfo,
        _: bool,
        _: Option<&ResponseData>,
        _: Outcome,
        _: Option<Duration>,
    ) {
    }

    pub(crate) fn discarded(&self, _: &CallInfo, _: bool) {
        match *self {}
    }

    pub(crate) fn retried(&self, _: bool) {
        match *self {}
    }

    pub(crate) fn refused(&self) {
        match *self {}
    }

    pub(crate) fn looked_up(&self, _: &'static str) {
        match *self {}
    }

    pub(crate) fn publish(&self, _: &Reading<'_>) {
        match *self {}
    }

    pub(crate) fn end(&self, _: &[Arc<InstanceState>]) {
        match *self {}
    }
}

pub(crate) enum Waiting {}

impl Waiting {
    pub(crate) fn ended(self, _: bool) {
        match self {}
    }
}
