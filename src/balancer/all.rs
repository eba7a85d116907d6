//! Whom a request may get, one by one: for calls to all of them, or to the first.

use std::sync::Arc;

use super::snapshot::Wanted;
use super::view::Picked;
use super::{ChooseError, ChooseErrorKind, LoadBalancer};
use crate::state::InstanceState;
use crate::supplier::Reason;
use crate::{Choice, Request};

impl LoadBalancer {
    /// The instances that `request` may get, in the order of first sight, those out of use included.
    pub(crate) fn candidates(&self, request: &Request<'_>) -> Result<Vec<Arc<InstanceState>>, ChooseError> {
        self.look_at(request, |wanted| Some(wanted.view.states().to_vec()))
    }

    /// The first of them that is not out of use.
    pub(crate) fn first_usable(&self, request: &Request<'_>) -> Result<Choice, ChooseError> {
        self.look_at(request, |wanted| {
            let picked = wanted.view.states().iter().find_map(|state| Picked::claim(state, 0))?;
            Some(picked.won().lease(request))
        })
    }

    /// The instance with this number, if `request` may get it and it is in use.
    pub(crate) fn usable(&self, request: &Request<'_>, uid: u64) -> Option<Choice> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view(request)?.ok()?.view;
        // They stand in the order of first sight, which is that of their numbers.
        let at = view.states().binary_search_by_key(&uid, |state| state.uid()).ok()?;
        let state = view.states().get(at).filter(|state| state.fits())?;
        Some(Picked::claim(state, 0)?.won().lease(request))
    }

    fn look_at<T>(
        &self,
        request: &Request<'_>,
        look: impl FnOnce(Wanted<'_>) -> Option<T>,
    ) -> Result<T, ChooseError> {
        let Some(snapshot) = self.snapshot() else { return Err(self.error(ChooseErrorKind::NotReady)) };
        match snapshot.view(request) {
            Some(Ok(wanted)) => look(wanted).ok_or_else(|| self.no_instances(&snapshot, Reason::NotPicked)),
            Some(Err(refused)) => Err(self.refused(&snapshot, refused, request)),
            None => Err(self.no_instances(&snapshot, snapshot.reason().unwrap_or(Reason::Empty))),
        }
    }
}
