use std::borrow::Cow;

use super::tables::Alias;
use super::{Candidates, PickCx, Picker, Policy};
use crate::random::below;

/// Any instance, each as likely as its weight says; O(1) with weights too (Walker's alias method, 1977).
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomPick;

impl Policy for RandomPick {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("random")
    }

    fn picker(&self, set: &Candidates<'_>) -> Box<dyn Picker> {
        match set.thousandths().as_deref().and_then(Alias::new) {
            Some(alias) => Box::new(Weighted(alias)),
            None => Box::new(Plain),
        }
    }
}

struct Plain;

impl Picker for Plain {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        cx.first_fit(|cx| below(cx.random(), cx.len()))
    }
}

struct Weighted(Alias);

impl Picker for Weighted {
    fn rehearses(&self) -> bool {
        true
    }

    fn pick(&self, cx: &mut PickCx<'_>) -> Option<usize> {
        cx.first_fit(|cx| self.0.at(cx.random()))
    }
}
