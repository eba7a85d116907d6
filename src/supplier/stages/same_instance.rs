use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::super::{Groups, RequestStage, Selection};
use crate::{Request, ServiceInstance};

/// Sends every request to the instance that the last one went to, as long as that is there and in use.
///
/// One memory for the service. An instance is the same one by its identity: changed metadata change nothing. When it is
/// gone, out of use, or was tried already, another one is picked, and that is the one from then on.
#[derive(Default)]
pub struct SameInstance {
    last: ArcSwapOption<Last>,
}

struct Last {
    instance: ServiceInstance,
    name: String,
}

fn name(instance: &ServiceInstance) -> String {
    format!("{}\n{}\n{:?}", instance.id(), instance.authority(), instance.scheme())
}

impl RequestStage for SameInstance {
    fn name(&self) -> &'static str {
        "same-instance"
    }

    fn groups(&self, _: &ServiceInstance, _: &mut dyn FnMut(&str)) {}

    fn instance_name(&self, instance: &ServiceInstance) -> Option<String> {
        Some(name(instance))
    }

    fn select(&self, _: &Request<'_>, groups: &Groups) -> Selection {
        match self.last.load().as_ref().and_then(|last| groups.instance(&last.name)) {
            Some(instance) => Selection::Instance(instance),
            None => Selection::All,
        }
    }

    fn wants_picks(&self) -> bool {
        true
    }

    fn on_pick(&self, _: &Request<'_>, instance: &ServiceInstance) {
        if self.last.load().as_ref().is_some_and(|last| last.instance.same_identity(instance)) {
            return;
        }
        self.last.store(Some(Arc::new(Last { instance: instance.clone(), name: name(instance) })));
    }
}

impl fmt::Debug for SameInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.load().as_ref().map(|last| last.instance.to_string());
        f.debug_struct("SameInstance").field("last", &last).finish()
    }
}
