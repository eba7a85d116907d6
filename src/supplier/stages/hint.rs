use super::super::{Groups, Reads, RequestStage, Selection};
use crate::request::Named;
use crate::{Request, ServiceInstance};

/// Instances whose metadata `hint` equals the request's hint; all of them when none does.
///
/// The hint is the first value of the header (default `X-SC-LB-Hint`) if it holds text, else the one that the caller gave
/// with the request, else the configured one. Case counts. Unlike Spring's, a request without any hint is not one for
/// instances tagged `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintStage {
    header: Named,
    default: Option<String>,
}

impl Default for HintStage {
    fn default() -> Self {
        Self { header: Named::new("X-SC-LB-Hint"), default: None }
    }
}

impl HintStage {
    /// The header that carries the hint.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>) -> Self {
        self.header = Named::new(name.into());
        self
    }

    /// The hint of a request that has none.
    #[must_use]
    pub fn with_default(mut self, hint: impl Into<String>) -> Self {
        self.default = Some(hint.into());
        self
    }
}

fn text(hint: &str) -> Option<&str> {
    // Nearly always there is nothing to trim, and then two bytes tell.
    let hint = match hint.as_bytes() {
        [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic() => hint,
        _ => hint.trim(),
    };
    (!hint.is_empty()).then_some(hint)
}

impl RequestStage for HintStage {
    fn name(&self) -> &'static str {
        "hint"
    }

    fn groups(&self, instance: &ServiceInstance, emit: &mut dyn FnMut(&str)) {
        instance.metadata().get("hint").and_then(text).into_iter().for_each(emit);
    }

    fn reads(&self) -> Reads {
        let reads = Reads::nothing().with_header(self.header.text());
        // An unknown hint means all instances, and so does none, unless there is a default.
        if self.default.is_none() { reads.with_hint_as_group() } else { reads.with_hint() }
    }

    fn select(&self, request: &Request<'_>, groups: &Groups) -> Selection {
        request
            .header_by(&self.header)
            .and_then(text)
            .or_else(|| request.hint().and_then(text))
            .or(self.default.as_deref())
            .and_then(|hint| groups.find(hint))
            .into()
    }
}
