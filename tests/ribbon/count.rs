//! Every case is a test or a row: see `tests/support/cases.rs`.

use crate::support::cases::faults;

#[test]
fn ribbon_count_every_case_is_a_test_or_a_row() {
    let faults = faults("ribbon", &[25..=59, 96..=96]);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
