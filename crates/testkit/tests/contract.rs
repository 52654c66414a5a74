//! `docs/store-contract.md` and the suite name the same promises.

use std::collections::BTreeSet;

use windlass_testkit::conformance::promises;
use windlass_testkit::memory::MemorySubject;

#[test]
fn the_contract_names_every_test_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store-contract.md");
    let text = std::fs::read_to_string(path).expect("docs/store-contract.md");
    let words = text.split(['`', ' ', '\n']).filter(|word| is_promise(word));
    let written: BTreeSet<&str> = words.collect();
    let tested: BTreeSet<&str> = promises::<MemorySubject>().into_iter().map(|(name, _)| name).collect();
    assert_eq!(written, tested);
    for number in 1..=27 {
        assert!(text.contains(&format!("\n{number}. **")), "promise {number} is missing");
        let named = tested.iter().any(|name| name.starts_with(&format!("p{number:02}_")));
        assert!(named || number == 14, "promise {number} has no test");
    }
}

/// Tests are named for their promise (`p04_…`) or for their fault (`fault_54_…`).
fn is_promise(word: &str) -> bool {
    let number = word.strip_prefix("fault_").or_else(|| word.strip_prefix('p'));
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) && word.contains('_')
}
