//! The log is drained on the caller's thread, and what it lost is counted.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

use plait::{Code, Config, Context, LogLevel};

use crate::support::{talkative_model, Folder};

/// The number after `"dropped":`, if the line has one.
fn dropped(line: &str) -> Option<usize> {
    let rest = line.split("\"dropped\":").nth(1)?;
    rest.trim_end_matches('}').trim().parse().ok()
}

#[test]
fn a_drain_counts_what_the_ring_lost() {
    let (context, folder) = (Context::new().unwrap(), Folder::new());
    let model = talkative_model(&folder, 1000);
    let mut config = Config::new(&context).unwrap();
    for _ in 0..10 {
        config.load_hugging_face(&model).unwrap();
    }
    let (mut lost, mut seen) = (0, 0);
    let me = thread::current().id();
    // A few at first, then all; the loss is told once.
    for most in [10, usize::MAX, usize::MAX] {
        context
            .drain_log(most, |line| {
                assert_eq!(thread::current().id(), me);
                match dropped(line) {
                    Some(count) => lost += count,
                    None => {
                        assert!(
                            line.contains("\"level\":\"warning\"") && line.contains("unknown_")
                        );
                        seen += 1;
                    }
                }
            })
            .unwrap();
    }
    assert_eq!(lost + seen, 10_000);
    assert!(lost > 0 && seen > 1000, "{lost} lost, {seen} seen");
    assert_eq!(context.drain_log(usize::MAX, |_| panic!()).unwrap(), 0);
}

#[test]
fn a_level_keeps_records_out() {
    let (context, folder) = (Context::new().unwrap(), Folder::new());
    let model = talkative_model(&folder, 3);
    let mut config = Config::new(&context).unwrap();
    context.set_log_level(LogLevel::ERROR).unwrap();
    config.load_hugging_face(&model).unwrap();
    assert_eq!(context.drain_log(100, |_| ()).unwrap(), 0);
    context.set_log_level(LogLevel::WARNING).unwrap();
    config.load_hugging_face(&model).unwrap();
    assert_eq!(context.drain_log(2, |_| ()).unwrap(), 2);
    assert_eq!(context.drain_log(100, |_| ()).unwrap(), 1);
    let error = context.set_log_level(LogLevel::from_number(9)).unwrap_err();
    assert_eq!(error.code(), Code::INVALID_ARGUMENT);
}

#[test]
fn a_panic_of_a_handler_reaches_the_caller() {
    let (context, folder) = (Context::new().unwrap(), Folder::new());
    Config::new(&context)
        .unwrap()
        .load_hugging_face(talkative_model(&folder, 5))
        .unwrap();
    let mut calls = 0;
    let drained = catch_unwind(AssertUnwindSafe(|| {
        context.drain_log(100, |_| {
            calls += 1;
            assert!(calls < 3, "enough");
        })
    }));
    assert!(drained.is_err());
    assert_eq!(calls, 3);
    assert_eq!(context.drain_log(100, |_| ()).unwrap(), 0);
}
