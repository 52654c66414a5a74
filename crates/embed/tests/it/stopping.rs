//! Stopping between batches.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use windlass_embed::{EmbedError, Model};

use crate::tiny::Tiny;

fn model() -> Model {
    Model::load(Tiny::new().write().path()).unwrap()
}

fn texts() -> Vec<&'static str> {
    vec!["toys! toys! toys!"; 2000]
}

#[test]
fn the_check_sees_how_far_it_is() {
    let mut seen = Vec::new();
    let check = |done| {
        seen.push(done);
        ControlFlow::Continue(())
    };
    assert_eq!(model().embed_with(&texts(), check).unwrap().len(), 2000);
    assert_eq!(seen[0], 0);
    assert!(seen.len() > 10 && seen.is_sorted() && *seen.last().unwrap() <= 2000, "{seen:?}");
}

#[test]
fn a_break_stops_all_threads() {
    let model = model().with_threads(4.try_into().unwrap());
    let check = |done| if done > 100 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let error = model.embed_with(&texts(), check).unwrap_err();
    let EmbedError::Stopped { done, total: 2000 } = error else { panic!("{error}") };
    assert!(done > 100);
    assert_eq!((error.code(), error.is_transient()), ("stopped", true));
}

#[test]
fn a_break_at_once_computes_nothing() {
    let one = model().with_threads(1.try_into().unwrap());
    let error = one.embed_with(&texts(), |_| ControlFlow::Break(())).unwrap_err();
    assert_eq!(error, EmbedError::Stopped { done: 0, total: 2000 });
}

#[test]
fn a_panic_of_the_check_is_the_callers() {
    let call = || model().embed_with(&texts(), |_| panic!("the check fell over"));
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the check fell over"));
}
