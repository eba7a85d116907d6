//! A pick allocates nothing: every policy, weighted or not; no hint, one, one that nobody has; none to four tried; static
//! and `dyn`, waiting and not.

#[path = "../benches/support/mod.rs"]
mod support;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

#[test]
fn a_pick_allocates_nothing() {
    let made = support::counting::allocations(|| drop(Box::new(1_u8)));
    assert_eq!(made, 1, "the allocator counts");
    let rows = support::zero::rows(&support::runtime());
    let guilty: Vec<_> = rows.iter().filter(|(_, made)| *made > 0).collect();
    assert!(guilty.is_empty() && !rows.is_empty(), "allocations: {guilty:?}");
}
